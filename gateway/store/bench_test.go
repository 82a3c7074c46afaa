package store_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sallyport/gateway/store"
	"sallyport/vault"
)

// filled is a vault with n credentials, beside that many past runs and actions.
func filled(b *testing.B, credentials, runs, actions int) (*store.DB, *vault.Vault) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "vault.db")
	d, err := store.Open(b.Context(), path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	v, err := vault.Open(b.Context(), d)
	if err != nil {
		b.Fatal(err)
	}
	draft, err := v.Prepare(key(), quick)
	if err != nil {
		b.Fatal(err)
	}
	if err := draft.Commit(b.Context(), nil, nil); err != nil {
		b.Fatal(err)
	}
	err = v.Apply(b.Context(), nil, func(e *vault.Edit) error {
		for n := range credentials {
			m := vault.Meta{Name: fmt.Sprintf("c%04d", n), Kind: "bearer", Rules: []byte(`{"allow":["GET https://api.example.com/**"]}`)}
			if _, err := e.AddCredential(m, []byte("ghp_0123456789012345678901234567890123456789")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	db, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	for query, n := range map[string]int{
		`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < ?)
			INSERT INTO runs (id, state, opened, changed, sealed) SELECT printf('run_%08d', i), 'ended', i, i, randomblob(200) FROM n`: runs,
		`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < ?)
			INSERT INTO actions (id, run, epoch, state, outcome, seq, started, finished, unresolved, digest, sealed) SELECT printf('act_%08d', i), printf('run_%08d', i % 10000), 'ep', 'done', 'confirmed', i, i, i, 0, randomblob(32), randomblob(300) FROM n`: actions,
	} {
		if _, err := db.Exec(query, n); err != nil {
			b.Fatal(err)
		}
	}
	return d, v
}

// BenchmarkP16 resolves one credential, lends its value and looks its last
// action up, with 1,000 credentials, 10,000 runs and a million actions, against
// the same with ten, ten and a thousand. ratio: the one over the other.
func BenchmarkP16(b *testing.B) {
	smallDB, small := filled(b, 10, 10, 1000)
	largeDB, large := filled(b, 1000, 10_000, 1_000_000)
	for name, f := range map[string]func(d *store.DB, v *vault.Vault) error{
		"resolve": func(_ *store.DB, v *vault.Vault) error {
			m, ok := v.Snapshot().Credential("c0007")
			if !ok {
				return vault.ErrUnknown
			}
			return v.With(b.Context(), vault.Ref{Name: m.Name, Version: m.Version}, func(vault.Secret) error { return nil })
		},
		"action": func(d *store.DB, _ *vault.Vault) error {
			_, ok, err := d.ActionByID(b.Context(), "act_00000777")
			if err == nil && !ok {
				err = vault.ErrUnknown
			}
			return err
		},
		"unresolved": func(d *store.DB, _ *vault.Vault) error {
			_, err := d.Unresolved(b.Context())
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			const batch = 64
			var times [2][]time.Duration
			for b.Loop() {
				for i, on := range []func() error{func() error { return f(smallDB, small) }, func() error { return f(largeDB, large) }} {
					began := time.Now()
					for range batch {
						if err := on(); err != nil {
							b.Fatal(err)
						}
					}
					times[i] = append(times[i], time.Since(began))
				}
			}
			median := func(d []time.Duration) float64 { slices.Sort(d); return float64(d[len(d)/2]) }
			b.ReportMetric(median(times[1])/median(times[0]), "ratio")
			b.ReportMetric(median(times[1])/batch, "ns/large")
			b.ReportMetric(median(times[0])/batch, "ns/small")
		})
	}
}
