package gateway

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// A07, A24, V03: a log that was cut, is gone, or a vault put back to an older copy: nothing is allowed before the
// operator's word, and that word is recorded.
func TestQuarantineAndRelease(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	early := snapshot(t, r.dir)
	r.addBearer("ledger", "POST "+up.URL+"/**")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.approveAll(ctx, "run")
	if got := code(r.agent().ask("call", call0(up.URL+"/1", "POST"))); got != "confirmed" {
		t.Fatal(got)
	}
	r.stop()
	replace := func(dir string, names ...string) {
		for _, name := range names {
			os.RemoveAll(filepath.Join(dir, name))
			if _, err := os.Stat(filepath.Join(early, name)); err == nil {
				if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(early, name))); err != nil {
					b, err := os.ReadFile(filepath.Join(early, name))
					if err != nil {
						t.Fatal(err)
					}
					os.WriteFile(filepath.Join(dir, name), b, 0o600)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		spoil   func(dir string)
		atStart bool // known before the vault is opened
	}{
		"log cut": {func(dir string) { replace(dir, "audit") }, true},
		"log gone": {func(dir string) {
			os.RemoveAll(filepath.Join(dir, "audit"))
			os.Remove(filepath.Join(dir, "audit.pub"))
		}, true},
		"older vault":     {func(dir string) { replace(dir, "vault.db", "vault.db-wal", "vault.db-shm") }, false},
		"nothing at all ": {func(string) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := snapshot(t, r.dir)
			c.spoil(dir)
			again := newRig(t, dir)
			broken := name != "nothing at all "
			if got := again.vault.State().String(); (got == "quarantined") != c.atStart {
				t.Fatalf("at start: %s", got)
			}
			proof := &api.Proof{Kind: "passphrase", Value: testPassphrase}
			_, err := again.opUnlock(opRequest{ctx: ctx, who: "passphrase", proof: proof})
			if broken != (err != nil && refusalOf(err).Code == "vault_quarantined") {
				t.Fatalf("unlock: %v", err)
			}
			release := func(value string, accept bool) string {
				_, err := again.opRelease(opRequest{ctx: ctx, who: "passphrase", args: encode(api.ReleaseArgs{AcceptLogHead: accept}),
					proof: &api.Proof{Kind: "passphrase", Value: value}})
				if err == nil {
					return ""
				}
				return refusalOf(err).Code
			}
			if !broken {
				if got := release(testPassphrase, true); got != "invalid_request" {
					t.Fatalf("release of a vault that is well: %q", got)
				}
				return
			}
			if got := code(again.agent().ask("call", call0(up.URL+"/2", "POST"))); got != "vault_quarantined" {
				t.Errorf("a call: %s", got)
			}
			if got := release("not the passphrase", true); got != "proof_wrong" {
				t.Errorf("release, wrong: %q", got)
			}
			if got := release(testPassphrase, false); got == "" {
				t.Error("released without accepting the log")
			}
			if got := again.vault.State().String(); got != "quarantined" {
				t.Errorf("still: %s", got)
			}
			if got := release(testPassphrase, true); got != "" {
				t.Fatalf("release: %q", got)
			}
			if got := again.vault.State().String(); got != "ready" {
				t.Fatalf("released: %s", got)
			}
			// It stays well: the next start and unlock compare again.
			again.stop()
			third := newRig(t, dir)
			third.unlock()
			third.stop()
			evs := events(t, dir, r.created.ReaderIdentity)
			if count(evs, "vault_released") != 1 {
				t.Fatalf("log: %v", kinds(evs))
			}
			for _, e := range evs {
				if x, ok := e.(event.VaultReleased); ok && (!x.AcceptedLog || x.Operator != "passphrase" || x.Reason == "") {
					t.Errorf("recorded: %+v", x)
				}
			}
		})
	}
}

// V03: whatever changed the vault last, an older vault beside the log is found: a call, a credential, a setting.
func TestOlderVaultIsFound(t *testing.T) {
	for name, change := range map[string]func(r *rig){
		"added and removed": func(r *rig) {
			r.addBearer("ledger", "GET https://api.example.com/**")
			op[api.Ended](r, r.opCredentialRemove, api.NameArgs{Name: "ledger"})
		},
		"removed": func(r *rig) { op[api.Ended](r, r.opCredentialRemove, api.NameArgs{Name: "first"}) },
		"a setting": func(r *rig) {
			if _, code := r.apply("[settings]\naudit_mirror = \""+filepath.Join(r.t.TempDir(), "m")+"\"", false); code != "" {
				r.t.Fatal(code)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "")
			r.init()
			r.addBearer("first", "GET https://api.example.org/**")
			early := snapshot(t, r.dir)
			change(r)
			r.stop()
			for _, f := range []string{"vault.db", "vault.db-wal", "vault.db-shm"} {
				os.Remove(filepath.Join(r.dir, f))
				if b, err := os.ReadFile(filepath.Join(early, f)); err == nil {
					os.WriteFile(filepath.Join(r.dir, f), b, 0o600)
				}
			}
			for range 2 { // the second start finds it too
				again := newRig(t, r.dir)
				_, err := again.opUnlock(opRequest{ctx: t.Context(), who: "passphrase", proof: &api.Proof{Kind: "passphrase", Value: testPassphrase}})
				if e := refusalOf(err); err == nil || e.Code != "vault_quarantined" || !strings.Contains(e.Reason, "older copy") {
					t.Fatalf("unlock: %v", err)
				}
				if s := again.status(); !strings.Contains(s.Quarantine, "older copy") {
					t.Errorf("status: %+v", s)
				}
				again.stop()
			}
		})
	}
}

// A new log is sealed to those of the settings, and bears a name of its own.
func TestNewLogFollowsSettings(t *testing.T) {
	reader, recipient, err := auditlog.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, "")
	r.init()
	if _, code := r.apply("[settings]\nrecipients = [\""+recipient+"\"]", false); code != "" {
		t.Fatal(code)
	}
	was, err := os.ReadFile(filepath.Join(r.dir, "audit.pub"))
	if err != nil {
		t.Fatal(err)
	}
	r.stop()
	os.RemoveAll(filepath.Join(r.dir, "audit"))
	os.Remove(filepath.Join(r.dir, "audit.pub"))
	again := newRig(t, r.dir)
	op[api.Status](again, again.opRelease, api.ReleaseArgs{AcceptLogHead: true})
	again.stop()
	if n := count(events(t, r.dir, reader), "vault_released"); n != 1 {
		t.Errorf("the reader of the settings finds %d releases", n)
	}
	now, err := os.ReadFile(filepath.Join(r.dir, "audit.pub"))
	if err != nil {
		t.Fatal(err)
	}
	a, err1 := auditlog.ParsePub(was)
	b, err2 := auditlog.ParsePub(now)
	if err1 != nil || err2 != nil || a.Origin == b.Origin || !bytes.Equal(a.Identity, b.Identity) {
		t.Errorf("origins %q, %q", a.Origin, b.Origin)
	}
}

// A log that is broken, or whose folder is gone while its key stayed, quarantines too: spd starts, and says why.
func TestBrokenLogQuarantines(t *testing.T) {
	r := newRig(t, "")
	r.init()
	r.addBearer("first", "GET https://api.example.org/**")
	r.stop()
	for name, spoil := range map[string]func(dir string) error{
		"folder gone, key there": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "audit")) },
		"a byte changed": func(dir string) error {
			path := filepath.Join(dir, "audit", "00000001.seg")
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b[200] ^= 1
			return os.WriteFile(path, b, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := snapshot(t, r.dir)
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			again := newRig(t, dir)
			if s := again.status(); s.Vault != "quarantined" || !strings.Contains(s.Quarantine, "sp vault release") {
				t.Fatalf("status: %+v", s)
			}
			if got := code(again.agent().ask("call", call0("https://api.example.org/x", "GET"))); got != "vault_quarantined" {
				t.Errorf("a call: %s", got)
			}
			proof := &api.Proof{Kind: "passphrase", Value: testPassphrase}
			if _, err := again.opRelease(opRequest{ctx: t.Context(), who: "passphrase", proof: proof, args: encode(api.ReleaseArgs{})}); refusalOf(err).Code != "vault_quarantined" {
				t.Errorf("release without accepting: %v", err)
			}
			if _, err := again.opRelease(opRequest{ctx: t.Context(), who: "passphrase", proof: proof, args: encode(api.ReleaseArgs{AcceptLogHead: true})}); err != nil {
				t.Fatalf("release: %v", err)
			}
			again.stop()
			if n := count(events(t, dir, r.created.ReaderIdentity), "vault_released"); n != 1 {
				t.Errorf("recorded %d times", n)
			}
		})
	}
}
