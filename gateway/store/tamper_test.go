package store_test

import (
	"errors"
	"os/exec"
	"testing"

	"sallyport/vault"
)

// TestTamperingByHand: what somebody with the sqlite3 program does to the file.
func TestTamperingByHand(t *testing.T) {
	part(t, "sqlite3")
	const one, two = `(SELECT min(id) FROM vault_rows WHERE class = 'credential')`, `(SELECT max(id) FROM vault_rows WHERE class = 'credential')`
	for name, tt := range map[string]struct {
		sql    string
		want   error // nil: opens
		forged int
	}{
		"V01 two ciphertexts swapped": {`CREATE TEMP TABLE s AS SELECT id, data FROM vault_rows WHERE class = 'credential';
			UPDATE vault_rows SET data = (SELECT data FROM s WHERE id = ` + two + `) WHERE id = ` + one + `;
			UPDATE vault_rows SET data = (SELECT data FROM s WHERE id = ` + one + `) WHERE id = ` + two, vault.ErrQuarantined, 0},
		"V02 version put back":         {`UPDATE vault_rows SET version = version - 1 WHERE id = ` + one, vault.ErrQuarantined, 0},
		"V02 counter put back":         {`UPDATE vault_counter SET counter = counter - 1`, vault.ErrQuarantined, 0},
		"V02 row taken away":           {`DELETE FROM vault_rows WHERE id = ` + one, vault.ErrQuarantined, 0},
		"V04 slot inserted":            {`INSERT INTO vault_rows SELECT '00112233445566778899aabbccddeeff', class, 0, data FROM vault_rows WHERE class = 'slot' LIMIT 1`, nil, 1},
		"V04 credential inserted":      {`INSERT INTO vault_rows SELECT '00112233445566778899aabbccddeeff', class, version, data FROM vault_rows WHERE id = ` + one, nil, 1},
		"V04 setting inserted":         {`INSERT INTO vault_rows VALUES ('00112233445566778899aabbccddeeff', 'setting', 1, randomblob(200))`, nil, 1},
		"V04 row of past inserted":     {`INSERT INTO vault_rows VALUES ('00112233445566778899aabbccddeeff', 'past', 1, randomblob(200))`, nil, 1},
		"V04 verifier of a later time": {`INSERT INTO vault_rows SELECT '00112233445566778899aabbccddeeff', class, version, CAST(x'7fffffffffffffff' || substr(data, 9) AS BLOB) FROM vault_rows WHERE class = 'verifier'`, nil, 1},
		"V14 grant inserted": {`INSERT INTO runs VALUES ('r', 'active', 1, 1, NULL); INSERT INTO epochs VALUES ('e', 'r', 'live', 1, 0, NULL);
			INSERT INTO grants VALUES ('g', 'r', 'e', 'live', 1, 0, NULL)`, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := created(t)
			if out, err := exec.Command("sqlite3", "-bail", path, tt.sql).CombinedOutput(); err != nil {
				t.Fatalf("sqlite3: %v: %s", err, out)
			}
			d := open(t, path)
			v, err := vault.Open(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Unlock(t.Context(), key()); !errors.Is(err, tt.want) {
				t.Fatalf("%v, want %v", err, tt.want)
			}
			if tt.want != nil {
				if v.State() != vault.Quarantined || v.Reason() == "" {
					t.Errorf("%v, %q", v.State(), v.Reason())
				}
				return
			}
			readable(t, v)
			if len(v.Forged()) != tt.forged {
				t.Errorf("forged %v, want %d", v.Forged(), tt.forged)
			}
		})
	}
}
