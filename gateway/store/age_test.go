package store_test

import (
	"bytes"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"sallyport/vault"
)

// TestAgeCommand: what we write opens with the age of the module's version and,
// where a passphrase is enough, of the distribution; slots that age wrote open
// here. Without a terminal age asks for no passphrase, so script(1) gives it one.
func TestAgeCommand(t *testing.T) {
	part(t, "age")
	part(t, "script")
	path, recovery := created(t)
	d := open(t, path)
	v := unlocked(t, d, key())
	dir := t.TempDir()
	files := map[bool]string{}
	sqlite(t, path, func(db *sql.DB) {
		for _, r := range rowsOf(t, db, "slot") {
			scrypt := bytes.Contains(r.data[:60], []byte("-> scrypt "))
			files[scrypt] = filepath.Join(dir, r.id+".age")
			if err := os.WriteFile(files[scrypt], r.data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	})
	identity := filepath.Join(dir, "recovery.txt")
	if err := os.WriteFile(identity, []byte(recovery+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(dir, "backup.age")
	if err := os.WriteFile(saved, backup(t, v), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("passphrase slot", func(t *testing.T) {
		out := filepath.Join(dir, "passphrase.plain")
		typed(t, "age -d -o "+out+" "+files[true], passphrase)
		slotPlain(t, out, files[true])
	})
	t.Run("recovery slot", func(t *testing.T) {
		out := filepath.Join(dir, "recovery.plain")
		ageOfModule(t, "-d", "-i", identity, "-o", out, files[false])
		slotPlain(t, out, files[false])
	})
	t.Run("backup", func(t *testing.T) {
		out := filepath.Join(dir, "backup.db")
		ageOfModule(t, "-d", "-i", identity, "-o", out, saved)
		readable(t, unlocked(t, open(t, out), key()))
	})
	t.Run("slot by age", func(t *testing.T) {
		if os.Getenv("SALLYPORT_REAL") != "require" && os.Getenv("SALLYPORT_LONG") != "1" {
			t.Skip("age -p: works for ten seconds, so only if asked for")
		}
		// The plaintext of our slot, sealed by age, in the place of ours: it is no
		// slot that the verifier lists, and opens nothing; inside, it is the same.
		plain := filepath.Join(dir, "passphrase.plain")
		theirs := filepath.Join(dir, "theirs.age")
		typed(t, "age -p -o "+theirs+" "+plain, passphrase, passphrase)
		b, err := os.ReadFile(theirs)
		if err != nil {
			t.Fatal(err)
		}
		i, err := age.NewScryptIdentity(passphrase)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := age.Decrypt(bytes.NewReader(b), i); err != nil {
			t.Errorf("what age wrote: %v", err)
		}
		id := strings.TrimSuffix(filepath.Base(files[true]), ".age")
		sqlite(t, path, func(db *sql.DB) { run(t, db, `UPDATE vault_rows SET data = ? WHERE id = ?`, b, id) })
		w, err := vault.Open(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		err = w.Unlock(t.Context(), key())
		if err == nil || !strings.Contains(err.Error(), "not a slot of this vault") {
			t.Errorf("a slot that is not in the roster: %v", err) // it was opened: only then can that be said
		}
	})
}

// slotPlain checks the plaintext of a slot that another program opened.
func slotPlain(t *testing.T, plain, file string) {
	t.Helper()
	b, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(b, []byte("spslot1\n")) || len(b) != 80 {
		t.Errorf("%s: %d bytes, beginning %q", filepath.Base(file), len(b), b[:min(len(b), 8)])
	}
}

// typed runs a command with a terminal of its own, where these lines are typed.
func typed(t *testing.T, command string, lines ...string) {
	t.Helper()
	c := exec.Command("script", "-qec", command, os.DevNull)
	c.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// ageOfModule runs the age command of the version that this module is built with (a tool of go.mod): the distributions'
// are too old for hybrid identities.
func ageOfModule(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("go", append([]string{"tool", "age"}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("age: %v: %s", err, out)
	}
}
