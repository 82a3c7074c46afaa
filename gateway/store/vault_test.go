package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"sallyport/gateway/store"
	"sallyport/vault"
)

const passphrase = "correct horse battery staple"

// open opens the database at path until the test ends.
func open(t *testing.T, path string) *store.DB {
	t.Helper()
	d, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// created makes a vault with two credentials and a host, and closes its database.
func created(t *testing.T) (path, recovery string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "vault.db")
	d, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	v, err := vault.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	draft, err := v.Prepare(vault.Passphrase([]byte(passphrase)), vault.CreateOptions{WorkFactor: 10})
	if err != nil {
		t.Fatal(err)
	}
	recovery = draft.RecoveryIdentity
	if err := draft.Commit(t.Context(), map[string][]byte{"log identity": []byte("the log's own key")}, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alpha", "bravo"} {
		if _, err := v.AddCredential(t.Context(), vault.Meta{Name: name, Kind: "bearer"}, []byte("value of "+name), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := v.AddHost(t.Context(), vault.Host{Name: "build", Data: []byte("build.example.com:22")}, nil); err != nil {
		t.Fatal(err)
	}
	return path, recovery
}

// sqlite runs statements on the file as an attacker with sqlite3 would.
func sqlite(t *testing.T, path string, f func(*sql.DB)) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	f(db)
}

func run(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatal(err)
	}
}

type row struct {
	id      string
	version int64
	data    []byte
}

func rowsOf(t *testing.T, db *sql.DB, class string) (out []row) {
	t.Helper()
	rs, err := db.Query(`SELECT id, version, data FROM vault_rows WHERE class = ? ORDER BY version, id`, class)
	if err != nil {
		t.Fatal(err)
	}
	defer rs.Close()
	for rs.Next() {
		var r row
		if err := rs.Scan(&r.id, &r.version, &r.data); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// TestTampering changes a closed vault and says what an unlock with the right
// passphrase must find.
func TestTampering(t *testing.T) {
	slot := func(t *testing.T, pass string, factor int) []byte {
		r, err := age.NewScryptRecipient(pass)
		if err != nil {
			t.Fatal(err)
		}
		r.SetWorkFactor(factor)
		var b bytes.Buffer
		w, err := age.Encrypt(&b, r)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(make([]byte, 80))
		w.Close()
		return b.Bytes()
	}
	tests := []struct {
		name   string
		change func(t *testing.T, db *sql.DB)
		want   error // nil: opens
		forged int
	}{
		{"untouched", func(*testing.T, *sql.DB) {}, nil, 0},
		{"V01 ciphertexts swapped", func(t *testing.T, db *sql.DB) {
			r := rowsOf(t, db, "credential")
			run(t, db, `UPDATE vault_rows SET data = ? WHERE id = ?`, r[0].data, r[1].id)
			run(t, db, `UPDATE vault_rows SET data = ? WHERE id = ?`, r[1].data, r[0].id)
		}, vault.ErrQuarantined, 0},
		{"V01 whole rows swapped", func(t *testing.T, db *sql.DB) {
			r := rowsOf(t, db, "credential")
			run(t, db, `UPDATE vault_rows SET data = ?, version = ? WHERE id = ?`, r[0].data, r[0].version, r[1].id)
			run(t, db, `UPDATE vault_rows SET data = ?, version = ? WHERE id = ?`, r[1].data, r[1].version, r[0].id)
		}, vault.ErrQuarantined, 0},
		{"value swapped, labels kept", func(t *testing.T, db *sql.DB) {
			r := rowsOf(t, db, "credential")
			a, b := r[0].data, r[1].data
			n := 1 + int(a[0]) // the label box; padding gives both rows the same lengths
			run(t, db, `UPDATE vault_rows SET data = ? WHERE id = ?`, append(append([]byte{}, a[:n]...), b[n:]...), r[0].id)
		}, vault.ErrQuarantined, 0},
		{"V04 slot inserted", func(t *testing.T, db *sql.DB) {
			run(t, db, `INSERT INTO vault_rows VALUES ('00000000000000000000000000000000', 'slot', 1, ?)`, slot(t, "attacker", 10))
		}, nil, 1},
		{"V04 rule row and passkey inserted", func(t *testing.T, db *sql.DB) {
			run(t, db, `INSERT INTO vault_rows VALUES ('00', 'credential', 9, ?)`, []byte("allow everything"))
			run(t, db, `INSERT INTO vault_rows VALUES ('01', 'passkey', 9, ?)`, []byte("mine"))
			run(t, db, `INSERT INTO vault_rows VALUES ('02', 'credential', 9, x'')`)
		}, nil, 3},
		{"V04 copy of a genuine row", func(t *testing.T, db *sql.DB) {
			run(t, db, `INSERT INTO vault_rows SELECT 'ff', class, version, data FROM vault_rows WHERE class = 'credential' LIMIT 1`)
		}, nil, 1},
		{"V05 scrypt 30 beside the real slot", func(t *testing.T, db *sql.DB) {
			costly := bytes.Replace(slot(t, passphrase, 10), []byte(" 10\n"), []byte(" 30\n"), 1)
			run(t, db, `INSERT INTO vault_rows VALUES ('00000000000000000000000000000000', 'slot', 0, ?)`, costly)
		}, nil, 1},
		{"V05 scrypt 30 in place of the real slot", func(t *testing.T, db *sql.DB) {
			for _, r := range rowsOf(t, db, "slot") {
				run(t, db, `UPDATE vault_rows SET data = ? WHERE id = ?`, bytes.Replace(r.data, []byte(" 10\n"), []byte(" 30\n"), 1), r.id)
			}
		}, vault.ErrWrongKey, 0},
		{"recovery slot deleted", func(t *testing.T, db *sql.DB) {
			for _, r := range rowsOf(t, db, "slot") {
				if !bytes.Contains(r.data, []byte("-> scrypt")) {
					run(t, db, `DELETE FROM vault_rows WHERE id = ?`, r.id)
				}
			}
		}, vault.ErrQuarantined, 0},
		{"all slots deleted", func(t *testing.T, db *sql.DB) {
			run(t, db, `DELETE FROM vault_rows WHERE class = 'slot'`)
		}, vault.ErrWrongKey, 0},
		{"credential deleted", func(t *testing.T, db *sql.DB) {
			run(t, db, `DELETE FROM vault_rows WHERE id IN (SELECT id FROM vault_rows WHERE class = 'credential' LIMIT 1)`)
		}, vault.ErrQuarantined, 0},
		{"credential deleted, another inserted", func(t *testing.T, db *sql.DB) {
			run(t, db, `UPDATE vault_rows SET data = x'0102' WHERE id IN (SELECT id FROM vault_rows WHERE class = 'credential' LIMIT 1)`)
		}, vault.ErrQuarantined, 0},
		{"host made a credential", func(t *testing.T, db *sql.DB) {
			run(t, db, `UPDATE vault_rows SET class = 'credential' WHERE class = 'host'`)
		}, vault.ErrQuarantined, 0},
		{"version changed", func(t *testing.T, db *sql.DB) {
			run(t, db, `UPDATE vault_rows SET version = version + 1 WHERE class = 'host'`)
		}, vault.ErrQuarantined, 0},
		{"counter lowered", func(t *testing.T, db *sql.DB) {
			run(t, db, `UPDATE vault_counter SET counter = counter - 1`)
		}, vault.ErrQuarantined, 0},
		{"counter raised", func(t *testing.T, db *sql.DB) {
			run(t, db, `UPDATE vault_counter SET counter = counter + 1`)
		}, vault.ErrQuarantined, 0},
		{"manifest deleted", func(t *testing.T, db *sql.DB) {
			run(t, db, `DELETE FROM vault_rows WHERE class = 'manifest'`)
		}, vault.ErrQuarantined, 0},
		{"verifier deleted", func(t *testing.T, db *sql.DB) {
			run(t, db, `DELETE FROM vault_rows WHERE class = 'verifier'`)
		}, vault.ErrQuarantined, 0},
		{"verifier spoilt", func(t *testing.T, db *sql.DB) {
			run(t, db, `UPDATE vault_rows SET data = zeroblob(200) WHERE class = 'verifier'`)
		}, vault.ErrQuarantined, 0},
		{"forged verifier and manifest beside the real ones", func(t *testing.T, db *sql.DB) {
			run(t, db, `INSERT INTO vault_rows VALUES ('00', 'verifier', 1, zeroblob(200))`)
			run(t, db, `INSERT INTO vault_rows VALUES ('01', 'manifest', 4, zeroblob(200))`)
		}, nil, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path, _ := created(t)
			sqlite(t, path, func(db *sql.DB) { tt.change(t, db) })
			v, err := vault.Open(t.Context(), open(t, path))
			if err != nil {
				t.Fatal(err)
			}
			err = v.Unlock(t.Context(), vault.Passphrase([]byte(passphrase)))
			if !errors.Is(err, tt.want) {
				t.Fatalf("unlock: %v, want %v", err, tt.want)
			}
			if len(v.Forged()) != tt.forged {
				t.Errorf("forged rows %v, want %d", v.Forged(), tt.forged)
			}
			switch tt.want {
			case nil:
				readable(t, v)
			case vault.ErrQuarantined:
				if v.State() != vault.Quarantined || v.Reason() == "" || v.Snapshot() != nil {
					t.Errorf("after quarantine: %v, reason %q, snapshot %v", v.State(), v.Reason(), v.Snapshot())
				}
			default:
				if v.State() != vault.Locked || v.Snapshot() != nil {
					t.Errorf("after %v: %v", tt.want, v.State())
				}
			}
		})
	}
}

// readable checks that a vault gives what created stored, and nothing else.
func readable(t *testing.T, v *vault.Vault) {
	t.Helper()
	s := v.Snapshot()
	if v.State() != vault.Ready || s == nil || len(s.Credentials()) != 2 || len(s.Hosts()) != 1 {
		t.Fatalf("state %v, snapshot %+v", v.State(), s)
	}
	for _, m := range s.Credentials() {
		var got string
		if err := v.With(t.Context(), vault.Ref{Name: m.Name, Version: m.Version}, func(s vault.Secret) error {
			got = string(s.Bytes())
			return nil
		}); err != nil || got != "value of "+m.Name {
			t.Errorf("value of %s: %q, %v", m.Name, got, err)
		}
	}
	if h, ok := s.Host("build"); !ok || string(h.Data) != "build.example.com:22" {
		t.Errorf("host: %+v, %v", h, ok)
	}
}

// TestOldRow: V02. Everything of one row put back, version included; then the
// manifest too.
func TestOldRow(t *testing.T) {
	path, _ := created(t)
	var old, oldManifest row
	sqlite(t, path, func(db *sql.DB) {
		old, oldManifest = rowsOf(t, db, "credential")[0], rowsOf(t, db, "manifest")[0]
	})
	d := open(t, path)
	v, err := vault.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	key := vault.Passphrase([]byte(passphrase))
	if err := v.Unlock(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if err := v.Drop(t.Context(), vault.Credentials, "alpha", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := v.AddCredential(t.Context(), vault.Meta{Name: "alpha"}, []byte("new value"), nil); err != nil {
		t.Fatal(err)
	}
	if m, _ := v.Snapshot().Credential("alpha"); m.Version <= uint64(old.version) {
		t.Errorf("version of the name added again is %d, was %d", m.Version, old.version)
	}
	v.Lock()
	sqlite(t, path, func(db *sql.DB) {
		run(t, db, `INSERT INTO vault_rows VALUES (?, 'credential', ?, ?)`, old.id, old.version, old.data)
	})
	if err := v.Unlock(t.Context(), key); !errors.Is(err, vault.ErrQuarantined) {
		t.Fatalf("old row put back: %v", err)
	}
	if err := v.Unlock(t.Context(), key); !errors.Is(err, vault.ErrQuarantined) {
		t.Fatalf("second unlock of a quarantined vault: %v", err)
	}
	sqlite(t, path, func(db *sql.DB) {
		run(t, db, `UPDATE vault_rows SET version = ?, data = ? WHERE class = 'manifest'`, oldManifest.version, oldManifest.data)
	})
	v, err = vault.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Unlock(t.Context(), key); !errors.Is(err, vault.ErrQuarantined) {
		t.Fatalf("old manifest put back: %v", err)
	}
}

// TestForgedSlotOpensNothing: an attacker's own slot, complete but for the DEK.
func TestForgedSlotOpensNothing(t *testing.T) {
	path, _ := created(t)
	other, _ := created(t)
	var theirs []row
	sqlite(t, other, func(db *sql.DB) { theirs = rowsOf(t, db, "slot") })
	sqlite(t, path, func(db *sql.DB) {
		run(t, db, `DELETE FROM vault_rows WHERE class = 'slot'`)
		for _, r := range theirs {
			run(t, db, `INSERT INTO vault_rows VALUES (?, 'slot', ?, ?)`, r.id, r.version, r.data)
		}
	})
	v, err := vault.Open(t.Context(), open(t, path))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Unlock(t.Context(), vault.Passphrase([]byte(passphrase))); !errors.Is(err, vault.ErrWrongKey) {
		t.Fatalf("another vault's slot: %v", err)
	}
	if err := v.Check(t.Context(), vault.Passphrase([]byte(passphrase))); !errors.Is(err, vault.ErrWrongKey) {
		t.Fatalf("another vault's slot: %v", err)
	}
}

// TestKeys: both slots open, others don't, and each slot is a plain age file.
func TestKeys(t *testing.T) {
	path, recovery := created(t)
	other, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		key  vault.Key
		want error
	}{
		{"passphrase", vault.Passphrase([]byte(passphrase)), nil},
		{"recovery", vault.Recovery(recovery), nil},
		{"wrong passphrase", vault.Passphrase([]byte(passphrase + " ")), vault.ErrWrongKey},
		{"empty passphrase", vault.Passphrase(nil), vault.ErrWrongKey},
		{"another identity", vault.Recovery(other.String()), vault.ErrWrongKey},
		{"no identity", vault.Recovery("AGE-SECRET-KEY-PQ-1NONSENSE"), vault.ErrWrongKey},
		{"passphrase typed as identity", vault.Recovery(passphrase), vault.ErrWrongKey},
		{"zero", vault.Key{}, vault.ErrWrongKey},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := vault.Open(t.Context(), open(t, path))
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Check(t.Context(), tt.key); !errors.Is(err, tt.want) {
				t.Errorf("check locked: %v", err)
			}
			if v.State() != vault.Locked {
				t.Errorf("check changed the state to %v", v.State())
			}
			err = v.Unlock(t.Context(), tt.key)
			if !errors.Is(err, tt.want) {
				t.Errorf("unlock: %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "NONSENSE") || err != nil && strings.Contains(err.Error(), passphrase) {
				t.Errorf("error quotes the key: %v", err)
			}
			if tt.want != nil {
				if err := v.Unlock(t.Context(), vault.Passphrase([]byte(passphrase))); err != nil {
					t.Fatalf("right key after a wrong one: %v", err)
				}
			}
			readable(t, v)
			if err := v.Check(t.Context(), tt.key); !errors.Is(err, tt.want) {
				t.Errorf("check ready: %v", err)
			}
		})
	}
	sqlite(t, path, func(db *sql.DB) {
		id, err := age.NewScryptIdentity(passphrase)
		if err != nil {
			t.Fatal(err)
		}
		opened := 0
		for _, r := range rowsOf(t, db, "slot") {
			if _, err := age.Decrypt(bytes.NewReader(r.data), id); err == nil {
				opened++
			}
		}
		if opened != 1 {
			t.Errorf("%d slots are age files of the passphrase, want 1", opened)
		}
	})
}

// TestNothingInTheClear searches the files while the WAL is full of recent
// writes, after a drop, and after closing. The same search must find a plant.
func TestNothingInTheClear(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "vault.db")
	d := open(t, path)
	v, err := vault.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	draft, err := v.Prepare(vault.Passphrase([]byte(passphrase)), vault.CreateOptions{WorkFactor: 10})
	if err != nil {
		t.Fatal(err)
	}
	words := []string{passphrase, draft.RecoveryIdentity, "ghp_S3cretTokenOfAlice0123456789", "the log's very own key",
		"github-of-alice", "account-label-7", "rule-of-the-house", "host-name-42", "host.internal.example"}
	if err := draft.Commit(t.Context(), map[string][]byte{"log identity": []byte(words[3])}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := v.AddCredential(t.Context(), vault.Meta{Name: words[4], Kind: "bearer", Account: words[5], Rules: []byte(words[6])}, []byte(words[2]), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := v.AddHost(t.Context(), vault.Host{Name: words[7], Data: []byte(words[8])}, nil); err != nil {
		t.Fatal(err)
	}
	search := func(when string) (found []string) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: files %v, %v", when, files, err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range words {
				for _, form := range forms(w) {
					if bytes.Contains(b, form) {
						found = append(found, when+": "+filepath.Base(f)+": "+w)
						break
					}
				}
			}
			if i, err := os.Stat(f); err != nil || i.Mode().Perm() != 0o600 {
				t.Errorf("%s: mode of %s: %v, %v", when, f, i.Mode(), err)
			}
		}
		return found
	}
	if found := search("open"); found != nil {
		t.Error(found)
	}
	if err := v.Drop(t.Context(), vault.Credentials, words[4], nil); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if found := search("closed"); found != nil {
		t.Error(found)
	}
	plants := []string{words[2], hex.EncodeToString([]byte(words[2]))}
	for lead := range 3 {
		plants = append(plants, base64.StdEncoding.EncodeToString([]byte("user:"[:3+lead-1]+words[2]+"!")))
	}
	for _, form := range plants {
		sqlite(t, path, func(db *sql.DB) {
			run(t, db, `CREATE TABLE IF NOT EXISTS plant (b BLOB)`)
			run(t, db, `INSERT INTO plant VALUES (?)`, []byte("x"+form))
		})
		if len(search("planted")) != 1 {
			t.Errorf("planted form %q was not found", form)
		}
		sqlite(t, path, func(db *sql.DB) { run(t, db, `PRAGMA secure_delete = ON`); run(t, db, `DROP TABLE plant`) })
	}
}

// forms are the raw, hex and three base64 shapes of a word.
func forms(w string) [][]byte {
	out := [][]byte{[]byte(w), []byte(hex.EncodeToString([]byte(w))), []byte(strings.ToUpper(hex.EncodeToString([]byte(w))))}
	for lead := range 3 {
		e := base64.RawStdEncoding.EncodeToString(append(make([]byte, lead), w...))
		out = append(out, []byte(e[(lead*8+5)/6:len(e)-1]))
	}
	return out
}

// TestAlso: the batch is in the outbox exactly if the change is stored.
func TestAlso(t *testing.T) {
	path, _ := created(t)
	d := open(t, path)
	v, err := vault.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Unlock(t.Context(), vault.Passphrase([]byte(passphrase))); err != nil {
		t.Fatal(err)
	}
	b := store.Batch{ID: [16]byte{7}, Sealed: true, Body: []byte("event")}
	if _, err := v.AddCredential(t.Context(), vault.Meta{Name: "alpha"}, []byte("x"), b.Bytes()); !errors.Is(err, vault.ErrExists) {
		t.Fatalf("name taken: %v", err)
	}
	if _, err := v.AddCredential(t.Context(), vault.Meta{Name: "charlie"}, []byte("x"), []byte("no batch")); !errors.Is(err, store.ErrInvalid) {
		t.Fatalf("malformed batch: %v", err)
	}
	if p, err := d.Pending(t.Context()); err != nil || len(p) != 0 {
		t.Fatalf("pending after refusals: %v, %v", p, err)
	}
	if _, err := v.AddCredential(t.Context(), vault.Meta{Name: "charlie"}, []byte("x"), b.Bytes()); err != nil {
		t.Fatalf("after a refusal: %v", err)
	}
	if p, err := d.Pending(t.Context()); err != nil || len(p) != 1 || !p[0].Sealed || string(p[0].Body) != "event" {
		t.Fatalf("pending: %v, %v", p, err)
	}
}

// TestStaleVault: two vaults over one file; the one behind changes nothing.
func TestStaleVault(t *testing.T) {
	path, _ := created(t)
	d := open(t, path)
	var vs [2]*vault.Vault
	for i := range vs {
		var err error
		if vs[i], err = vault.Open(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if err := vs[i].Unlock(t.Context(), vault.Passphrase([]byte(passphrase))); err != nil {
			t.Fatal(err)
		}
	}
	if err := vs[0].Drop(t.Context(), vault.Credentials, "alpha", nil); err != nil {
		t.Fatal(err)
	}
	_, err := vs[1].AddHost(context.Background(), vault.Host{Name: "new"}, nil)
	if !errors.Is(err, vault.ErrConflict) {
		t.Fatalf("change on an old counter: %v", err)
	}
	if _, ok := vs[1].Snapshot().Host("new"); ok {
		t.Error("a refused change is visible")
	}
	vs[1].Lock()
	if err := vs[1].Unlock(t.Context(), vault.Passphrase([]byte(passphrase))); err != nil {
		t.Fatal(err)
	}
	if len(vs[1].Snapshot().Credentials()) != 1 {
		t.Error("unlocking again did not bring the other's change")
	}
}
