package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/auditlog"
	"sallyport/gateway/api"
)

// created is what a gateway answers to init after it has made b.
func created(b *book) api.Created {
	return api.Created{VaultID: "vlt_1", RecoveryIdentity: b.recovery, ReaderIdentity: b.reader,
		AuditPub: filepath.Join(b.dir, "audit.pub"), AuditKey: b.pub(), Fingerprint: b.fingerprint()}
}

func TestInitPins(t *testing.T) {
	w := newWorld(t)
	b := newBook(t, w.dir, "sallyport/test")
	b.close()
	w.operator(answers{api.PathStatus: api.Status{Vault: "absent"}, api.PathInit: created(b)})
	w.fds[3] = "correct horse\n"
	out, errs := w.want(0, "", "init", "--passphrase-fd", "3")
	contains(t, "stdout", out, b.recovery, b.reader, b.fingerprint(), "Neither is shown again")
	lacks(t, "output", out+errs, "correct horse")
	pin := filepath.Join(w.dir, "pins", "sallyport%2Ftest.pub")
	contains(t, "stderr", errs, pin)
	if p, err := os.ReadFile(pin); err != nil || string(p) != b.pub() {
		t.Errorf("pin %q, %v", p, err)
	}
	// From now on the log is verified without a flag, also as a copy.
	text, _ := w.want(0, "", "audit", "verify")
	contains(t, "text", text, "verdict       intact", "pinned by "+pin)
	w.want(0, "", "audit", "verify", b.copyTo("copy"))

	// A log rewritten under the same name, its key beside it (A19).
	other := newBook(t, filepath.Join(filepath.Dir(w.dir), "other"), "sallyport/test")
	other.close()
	text, _ = w.want(1, "", "audit", "verify", other.dir)
	contains(t, "text", text, "kind          forked", "segment       audit.pub", b.fingerprint(), other.fingerprint())
	_, errs = w.want(1, "", "audit", "pin", other.dir)
	contains(t, "stderr", errs, "another key is pinned", "remove "+pin)
	if p, _ := os.ReadFile(pin); string(p) != b.pub() {
		t.Error("the pin was replaced")
	}
	_, errs = w.want(1, "", "audit", "sessions", other.dir, "--identity", w.file("id", other.reader))
	contains(t, "stderr", errs, "audit.pub")
	// Under another name nothing vouches for it.
	stranger := newBook(t, filepath.Join(filepath.Dir(w.dir), "stranger"), "sallyport/stranger")
	stranger.close()
	text, _ = w.want(3, "", "audit", "verify", stranger.dir)
	contains(t, "text", text, "NOT pinned", stranger.fingerprint())

	// A pin that others could have written is none.
	if err := os.Chmod(filepath.Join(w.dir, "pins"), 0o777); err != nil {
		t.Fatal(err)
	}
	_, errs = w.want(2, "", "audit", "verify")
	contains(t, "stderr", errs, "open to others")
}

func TestInitJSON(t *testing.T) {
	w := newWorld(t)
	b := newBook(t, w.dir, "sallyport/test")
	b.close()
	w.operator(answers{api.PathStatus: api.Status{Vault: "absent"}, api.PathInit: created(b)})
	w.fds[3] = "long enough"
	out, _ := w.want(0, "", "init", "--json", "--passphrase-fd", "3")
	v := verdictOf(t, out)
	for key, want := range map[string]string{"vaultId": "vlt_1", "recoveryIdentity": b.recovery, "readerIdentity": b.reader,
		"auditPub": filepath.Join(w.dir, "audit.pub"), "fingerprint": b.fingerprint()} {
		if v[key] != want {
			t.Errorf("%s is %v", key, v[key])
		}
	}
	if len(v) != 5 {
		t.Errorf("keys %v", v)
	}
}

// What the gateway said and what lies on the disk differ: no pin, and the identities are still shown.
func TestInitOtherKey(t *testing.T) {
	w := newWorld(t)
	b := newBook(t, w.dir, "sallyport/test")
	b.close()
	c := created(b)
	c.Fingerprint = "sha256:" + strings.Repeat("0", 64)
	w.operator(answers{api.PathStatus: api.Status{Vault: "absent"}, api.PathInit: c})
	w.fds[3] = "long enough"
	out, errs := w.want(1, "", "init", "--passphrase-fd", "3")
	contains(t, "stdout", out, b.recovery, b.reader)
	contains(t, "stderr", errs, "pin audit key", b.fingerprint(), "sp audit pin")
	if _, err := os.Stat(filepath.Join(w.dir, "pins")); err == nil {
		t.Error("a pin was made")
	}
}

func TestPin(t *testing.T) {
	w := newWorld(t)
	b := newBook(t, filepath.Join(filepath.Dir(w.dir), "log"), "..%/\u00e9"+strings.Repeat("x", 200))
	b.close()
	w.want(3, "", "audit", "verify", b.dir)
	out, _ := w.want(0, "", "audit", "pin", filepath.Join(b.dir, "audit"))
	contains(t, "stdout", out, "pinned "+b.fingerprint())
	w.want(0, "", "audit", "pin", b.dir)
	w.want(0, "", "audit", "verify", b.dir)
	names, err := os.ReadDir(filepath.Join(w.dir, "pins"))
	if err != nil || len(names) != 1 || strings.HasPrefix(names[0].Name(), ".") || !strings.HasSuffix(names[0].Name(), ".pub") {
		t.Errorf("pins %v, %v", names, err)
	}
	change(t, b.dir, "audit.pub", func(d []byte) []byte { return append(d, 'x') })
	w.want(1, "", "audit", "pin", b.dir)
	w.want(1, "", "audit", "verify", b.dir)
	os.Remove(filepath.Join(b.dir, "audit.pub"))
	_, errs := w.want(2, "", "audit", "pin", b.dir)
	contains(t, "stderr", errs, "holds no audit.pub")
}

// Different origins never share a file, and no origin leaves the folder.
func TestPinPath(t *testing.T) {
	long := strings.Repeat("y", 255)
	seen := map[string]string{}
	for _, origin := range []string{"a", "a/b", "a%2Fb", "..", ".", ".a", "%2Ea", "../a", "/etc/passwd", "", long, long[1:], long[:120]} {
		p := pinPath("/pins", origin)
		if filepath.Dir(p) != "/pins" || len(filepath.Base(p)) > 255 || strings.HasPrefix(filepath.Base(p), ".") && origin != "" {
			t.Errorf("%q lies in %s", origin, p)
		}
		if was, ok := seen[p]; ok {
			t.Errorf("%q and %q share %s", origin, was, p)
		}
		seen[p] = origin
	}
}

func TestKeepPinRefusesNonsense(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pins")
	if _, _, err := keepPin(dir, []byte("nonsense")); err == nil {
		t.Error("nonsense was pinned")
	}
	if _, err := auditlog.ParsePub(nil); err == nil {
		t.Error("nothing is an audit.pub")
	}
}
