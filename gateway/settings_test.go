package gateway

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// apply carries a file out, or only plans it.
func (r *rig) apply(file string, dry bool, values ...string) ([]api.Change, string) {
	r.t.Helper()
	out, err := r.applied(file, dry, values...)
	if err != nil {
		return nil, refusalOf(err).Code
	}
	return out.Changes, ""
}

// applied is apply with its whole answer; values are those that the plan wants, in its order.
func (r *rig) applied(file string, dry bool, values ...string) (api.Applied, error) {
	r.t.Helper()
	out, err := r.opPlan(valueOf(r.t.Context(), file, func(n int, digest []byte) any { return api.PlanArgs{ValueLength: n, ValueDigest: digest} }))
	if err != nil {
		return api.Applied{}, err
	}
	plan := out.(api.Plan)
	if dry {
		return api.Applied{Changes: plan.Changes}, nil
	}
	a := api.ApplyArgs{Plan: plan.Digest, FileLength: len(file)}
	for i, v := range values {
		a.Values = append(a.Values, api.GivenValue{Name: plan.Values[i].Name, Length: len(v)})
	}
	out, err = r.opApply(valueOf(r.t.Context(), file+strings.Join(values, ""), func(n int, digest []byte) any {
		a.ValueLength, a.ValueDigest = n, digest
		return a
	}))
	if err != nil {
		return api.Applied{}, err
	}
	return out.(api.Applied), nil
}

func TestApply(t *testing.T) {
	r := newRig(t, "")
	r.init()
	const classic = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p" // age's README
	for name, file := range map[string]string{
		"no TOML":              "[settings",
		"unknown setting":      "[settings]\nauthority = \"all\"",
		"unknown table":        "[credentials.x]\nkind = \"bearer\"",
		"relative mirror":      "[settings]\naudit_mirror = \"copy\"",
		"mirror with dots":     "[settings]\naudit_mirror = \"/tmp/../etc\"",
		"mirror inside itself": fmt.Sprintf("[settings]\naudit_mirror = %q", filepath.Join(r.dir, "audit")),
		"mixed recipients":     fmt.Sprintf("[settings]\naudit_mirror = %q\nrecipients = [%q]", filepath.Join(r.dir, "..", "elsewhere"), classic),
		"no recipient":         "[settings]\nrecipients = [\"age1nobody\"]",
		"no witness":           "[settings]\nwitness = [\"https://witness.example\"]",
		"wrong type":           "[settings]\naudit_mirror = 3",
	} {
		if _, got := r.apply(file, false); got != "invalid_request" {
			t.Errorf("%s: %q", name, got)
		}
		if m := r.log.w.Load().MirrorState(); m.Dir != "" {
			t.Errorf("%s: refused, and the mirror moved to %s", name, m.Dir)
		}
	}
	mirror := filepath.Join(t.TempDir(), "copy")
	_, recipient, err := auditlog.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	file := fmt.Sprintf("[settings]\naudit_mirror = %q\nrecipients = [%q]\n", mirror, recipient)
	if c, got := r.apply(file, true); got != "" || len(c) != 2 {
		t.Fatalf("dry run: %v %q", c, got)
	}
	if _, err := os.Stat(mirror); err == nil {
		t.Fatal("a dry run made the folder")
	}
	if c, got := r.apply(file, false); got != "" || len(c) != 2 || c[0].Setting != "audit_mirror" {
		t.Fatalf("apply: %v %q", c, got)
	}
	if c, got := r.apply(file, false); got != "" || len(c) != 0 {
		t.Fatalf("the same again: %v %q", c, got)
	}
	// They outlive lock and restart.
	op[api.Status](r, r.opLock, struct{}{})
	r.stop()
	again := newRig(t, r.dir)
	again.unlock()
	// A change that was cut short between log and vault is made good at the next unlock: the settings stand.
	first, err := again.sealedTo(t.Context(), nil)
	if err == nil {
		err = again.changeRecipients(t.Context(), first)
	}
	if err != nil {
		t.Fatal(err)
	}
	op[api.Status](again, again.opLock, struct{}{})
	again.unlock()
	if b, err := os.ReadFile(filepath.Join(r.dir, "audit.pub")); err != nil {
		t.Fatal(err)
	} else if p, err := auditlog.ParsePub(b); err != nil || p.Recipients[0] != recipient {
		t.Fatalf("the log is sealed to %v, %v", p.Recipients, err)
	}
	s, err := readSettings(again.vault.Snapshot())
	if err != nil || s.AuditMirror != mirror || len(s.Recipients) != 1 {
		t.Fatalf("after a restart: %+v %v", s, err)
	}
	again.stop()
	evs := events(t, r.dir, r.created.RecoveryIdentity) // the one that is always among the recipients
	if count(evs, "settings_changed") != 1 || count(evs, "log_recipients_changed") != 2 {
		t.Fatalf("log: %v", kinds(evs))
	}
	pub, err := os.ReadFile(filepath.Join(mirror, "audit.pub"))
	if err != nil {
		t.Fatal(err)
	}
	rep, err := auditlog.Verify(os.DirFS(filepath.Join(mirror, "audit")), pub, auditlog.VerifyOptions{})
	if err != nil || rep.Verdict != auditlog.Intact || rep.Records == 0 {
		t.Fatalf("the mirror: %+v %v", rep, err)
	}
	if _, err := os.Stat(filepath.Join(mirror, "audit", "signer")); err == nil {
		t.Fatal("the signer is in the mirror")
	}
	var changed event.SettingsChanged
	for _, e := range evs {
		if x, ok := e.(event.SettingsChanged); ok {
			changed = x
		}
	}
	if strings.Join(changed.Settings, " ") != "audit_mirror recipients" || changed.Operator != "passphrase" {
		t.Errorf("recorded: %+v", changed)
	}
}

// testWitness is a C2SP tlog-witness: it remembers one tree, and checks every proof.
type testWitness struct {
	*httptest.Server
	key   ed25519.PrivateKey
	name  string
	vkey  string
	log   note.Verifier
	mu    sync.Mutex
	size  int64
	root  tlog.Hash
	asked int
}

func newWitness(t *testing.T, log note.Verifier) *testWitness {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &testWitness{key: key, name: "witness.example/w1", log: log}
	raw := append([]byte{algCosignature}, key.Public().(ed25519.PublicKey)...)
	w.vkey = fmt.Sprintf("%s+%08x+%s", w.name, w.hash(), base64.StdEncoding.EncodeToString(raw))
	w.Server = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.Close)
	return w
}

func (w *testWitness) hash() uint32 {
	sum := sha256.Sum256(append([]byte(w.name+"\n\x04"), w.key.Public().(ed25519.PublicKey)...))
	return binary.BigEndian.Uint32(sum[:4])
}

func (w *testWitness) serve(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	body, _ := io.ReadAll(r.Body)
	head, checkpoint, ok := bytes.Cut(body, []byte("\n\n"))
	n, err := note.Open(checkpoint, note.VerifierList(w.log))
	if r.URL.Path != "/add-checkpoint" || !ok || err != nil {
		http.Error(out, "bad", http.StatusForbidden)
		return
	}
	lines := strings.Split(string(head), "\n")
	old, _ := strconv.ParseInt(strings.TrimPrefix(lines[0], "old "), 10, 64)
	text := strings.Split(n.Text, "\n")
	size, _ := strconv.ParseInt(text[1], 10, 64)
	raw, _ := base64.StdEncoding.DecodeString(text[2])
	root := tlog.Hash(raw)
	if old != w.size {
		out.Header().Set("Content-Type", "text/x.tlog.size")
		out.WriteHeader(http.StatusConflict)
		fmt.Fprintf(out, "%d\n", w.size)
		return
	}
	var proof tlog.TreeProof
	for _, l := range lines[1:] {
		b, _ := base64.StdEncoding.DecodeString(l)
		proof = append(proof, tlog.Hash(b))
	}
	if w.size > 0 && (size < w.size || size > w.size && tlog.CheckTree(proof, size, root, w.size, w.root) != nil || size == w.size && root != w.root) {
		http.Error(out, "no proof", http.StatusUnprocessableEntity)
		return
	}
	w.size, w.root = size, root
	at := uint64(time.Now().Unix())
	sig := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, w.hash()), at)
	sig = append(sig, ed25519.Sign(w.key, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, n.Text))...)
	fmt.Fprintf(out, "\u2014 %s %s\n", w.name, base64.StdEncoding.EncodeToString(sig))
}

// TestApplyLeavesTheMirror: what is wrong with the mirror meanwhile is no reason to refuse another setting.
func TestApplyLeavesTheMirror(t *testing.T) {
	r := newRig(t, "")
	r.init()
	mirror := filepath.Join(t.TempDir(), "copy")
	if _, got := r.apply(fmt.Sprintf("[settings]\naudit_mirror = %q", mirror), false); got != "" {
		t.Fatal(got)
	}
	w := r.log.w.Load()
	for deadline := time.Now().Add(time.Minute); w.MirrorState().At.IsZero(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("mirror %+v", w.MirrorState())
		}
	}
	if err := os.Rename(mirror, mirror+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(r.dir, "audit"), mirror); err != nil {
		t.Fatal(err)
	}
	_, recipient, err := auditlog.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	if c, got := r.apply(fmt.Sprintf("[settings]\nrecipients = [%q]", recipient), false); got != "" || len(c) != 1 {
		t.Fatalf("recipients: %v %q", c, got)
	}
	if s := w.MirrorState(); s.Dir != mirror {
		t.Errorf("mirror %+v", s)
	}
}

func TestWitness(t *testing.T) {
	r := newRig(t, "")
	r.init()
	pub, err := os.ReadFile(filepath.Join(r.dir, "audit.pub"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := auditlog.ParsePub(pub)
	if err != nil {
		t.Fatal(err)
	}
	vkey, err := note.NewEd25519VerifierKey(p.Origin, p.Identity)
	if err != nil {
		t.Fatal(err)
	}
	logKey, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	w := newWitness(t, logKey)
	list := op[[]api.Witness](r, r.opWitnessAdd, api.WitnessArgs{URL: w.URL, Key: w.vkey})
	if len(list) != 1 || list[0].Error != "" || list[0].Size == 0 || list[0].Name != w.name {
		t.Fatalf("added: %+v", list)
	}
	for name, a := range map[string]api.WitnessArgs{
		"twice": {URL: w.URL, Key: w.vkey}, "no key": {URL: w.URL + "/x"}, "another's hash": {URL: w.URL + "/x", Key: strings.Replace(w.vkey, "+", "x+", 1)},
		"plain http elsewhere": {URL: "http://witness.example", Key: w.vkey}, "slash": {URL: w.URL + "/", Key: w.vkey},
		"a key of two lines": {URL: w.URL + "/x", Key: w.vkey[:len(w.vkey)-4] + "\n" + w.vkey[len(w.vkey)-4:]},
	} {
		if _, err := r.opWitnessAdd(opRequest{ctx: t.Context(), args: encode(a)}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	// The log grows; the next checkpoint carries a cosignature of exactly that text.
	r.addBearer("ledger", "GET https://api.example.com/**")
	cp := op[api.Checkpoint](r, r.opCheckpoint, struct{}{})
	key, err := parseCosigner(w.vkey)
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open([]byte(cp.Note), note.VerifierList(logKey, key))
	if err != nil || len(n.Sigs) != 2 || len(n.UnverifiedSigs) != 0 {
		t.Fatalf("checkpoint: %v\n%s", err, cp.Note)
	}
	if rep, err := auditlog.Verify(os.DirFS(filepath.Join(r.dir, "audit")), pub, auditlog.VerifyOptions{Checkpoint: []byte(cp.Note), Live: func() bool { return true }}); err != nil || rep.Verdict == auditlog.Broken {
		t.Fatalf("verify against it: %+v %v", rep, err)
	}
	// A witness that has seen more than this log has is an alarm, and it never cosigns another history.
	w.mu.Lock()
	w.size += 1000
	w.mu.Unlock()
	r.addBearer("second", "GET https://api.example.net/**")
	op[api.Checkpoint](r, r.opCheckpoint, struct{}{})
	if l := op[[]api.Witness](r, r.opWitnessList, struct{}{}); !strings.Contains(l[0].Error, "cut or put back") {
		t.Fatalf("a shorter log than the witness knows: %+v", l)
	}
	if l := op[[]api.Witness](r, r.opWitnessRemove, api.URLArgs{URL: w.URL}); len(l) != 0 {
		t.Fatalf("removed: %+v", l)
	}
}
