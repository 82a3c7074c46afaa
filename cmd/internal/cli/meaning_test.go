package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// newTale is a log that means what it must: a run that was opened and revoked.
func newTale(t *testing.T, dir string) *book {
	t.Helper()
	b := emptyBook(t, dir, "sallyport/test")
	b.add(auditlog.Note, event.GatewayStarted{Version: "v1", ProcessID: 7})
	b.add(auditlog.Note, event.VaultCreated{VaultID: "vlt_1"})
	b.add(auditlog.Note, event.RunOpened{Run: run1, Agent: event.Peer{ProcessID: 1, Exe: hostile}})
	b.add(auditlog.Note, event.RunRevoked{Run: run1, Operator: "passphrase"})
	return b
}

// breach makes it a log in which a revoked run calls once more.
func (b *book) breach() {
	b.t.Helper()
	b.add(auditlog.Intent, event.ToolCalled{Call: event.Call{Action: act1, Run: run1, Epoch: ep1, Tool: api.ToolSSH, Target: hostile}, Digest: "d", Decision: "granted", Grant: "gr_1"})
	b.add(auditlog.Result, event.ToolFinished{Action: act1, Run: run1, Epoch: ep1, Outcome: "confirmed"})
}

// Meaning is a second verdict: told apart, with a status of its own, and never a fault of the chain.
func TestMeaning(t *testing.T) {
	w := newWorld(t)
	sound := newTale(t, w.dir)
	pub := w.file("audit.pub", sound.pub())
	reader, recovery := w.file("reader", sound.reader), w.file("recovery", sound.recovery)
	good := sound.copyTo("good")
	sound.breach()
	sound.close()
	bad := sound.copyTo("bad")
	spoilt := sound.copyTo("spoilt")
	change(t, spoilt, "audit/00000001.seg", flip(900))
	other := emptyBook(t, filepath.Join(filepath.Dir(w.dir), "other"), "x")
	stranger := w.file("stranger", other.reader)

	for name, tt := range map[string]struct {
		args    []string
		exit    int
		verdict string
		judged  bool
		says    []string
		stderr  []string
	}{
		"sound":        {[]string{good, "--pub", pub, "--identity", reader}, 0, "intact", true, []string{"\nmeaning       sound\n", "calls         0"}, nil},
		"by recovery":  {[]string{good, "--pub", pub, "--identity", recovery}, 0, "intact", true, []string{"\nmeaning       sound\n"}, nil},
		"breached":     {[]string{bad, "--pub", pub, "--identity", reader}, 6, "intact", true, []string{"verdict       intact", "meaning       breached: ", "record 5, 4: call_after_revocation: ", "calls         1"}, nil},
		"not asked":    {[]string{bad, "--pub", pub}, 0, "intact", false, []string{"meaning       not checked: that needs --identity"}, nil},
		"unpinned":     {[]string{bad, "--identity", reader}, 3, "unpinned", true, []string{"meaning       breached: "}, nil},
		"broken":       {[]string{spoilt, "--pub", pub, "--identity", reader}, 1, "broken", false, []string{"meaning       not checked: the chain is broken"}, nil},
		"a stranger":   {[]string{good, "--pub", pub, "--identity", stranger}, 2, "intact", false, []string{"verdict       intact", "meaning       not checked: " + stranger + ": this"}, []string{"sp: check meaning: " + stranger + ": this identity does not open this log from its beginning", "next: give the file that holds the reader identity"}},
		"no identity":  {[]string{good, "--pub", pub, "--identity", pub}, 2, "intact", false, nil, []string{pub + " holds no whole age identity", "next: "}},
		"half of one":  {[]string{good, "--pub", pub, "--identity", w.file("half", sound.reader[:40])}, 2, "intact", false, nil, []string{"half holds no whole age identity"}},
		"all the same": {[]string{bad, "--pub", pub, "--identity", reader, "--all-signatures"}, 6, "intact", true, []string{"signatures    every commit's was checked"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs := w.want(tt.exit, "", append([]string{"audit", "verify", "--json"}, tt.args...)...)
			contains(t, "stderr", errs, tt.stderr...)
			lacks(t, "stderr", errs, "AGE-SECRET", sound.reader[20:40])
			v := verdictOf(t, out)
			if v["verdict"] != tt.verdict || (v["meaning"] != nil) != tt.judged {
				t.Errorf("document %s", out)
			}
			if m, ok := v["meaning"].(map[string]any); ok {
				breaches, ok := m["breaches"].([]any)
				if want := tt.exit == 6 || tt.verdict == "unpinned"; !ok || (len(breaches) > 0) != want {
					t.Errorf("breaches %v", m)
				}
			}
			text, errs := w.want(tt.exit, "", append([]string{"audit", "verify"}, tt.args...)...)
			contains(t, "text", text, tt.says...)
			if strings.ContainsFunc(text+errs, func(r rune) bool { return r != '\n' && unsafe(r) }) {
				t.Errorf("raw text: %q", text)
			}
		})
	}
	if _, errs := w.want(2, "", "audit", "verify", good, "--pub", pub, "--identity", "/none"); !strings.Contains(errs, "/none") || !strings.Contains(errs, "next: give the file") {
		t.Errorf("stderr %q", errs)
	}
}

// Whose recipients change loses what comes later, and the output says from where.
func TestMeaningOfAnotherReader(t *testing.T) {
	w := newWorld(t)
	b := newTale(t, w.dir)
	old := b.pub()
	_, one, err := auditlog.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	_, two, err := auditlog.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.w.Recipients(b.id, []string{one, two}); err != nil {
		t.Fatal(err)
	}
	b.add(auditlog.Note, event.GatewayStopped{Reason: "operator"})
	b.close()
	args := []string{w.dir, "--pub", w.file("audit.pub", old), "--identity", w.file("reader", b.reader)}
	_, errs := w.want(2, "", append([]string{"audit", "verify"}, args...)...)
	contains(t, "verify", errs, "opens the log to record 4 and no further")
	out, errs := w.want(1, "", append([]string{"audit", "sessions"}, args...)...)
	contains(t, "sessions", errs, "opens the log to record 4 and no further")
	contains(t, "sessions", out, "run_revoked")
}

// What only the gateway's running keys vouch for is said, and gone once the identity signs.
func TestWeak(t *testing.T) {
	w := newWorld(t)
	b := newTale(t, w.dir)
	pub := w.file("audit.pub", b.pub())
	text, _ := w.want(0, "", "audit", "verify", "--pub", pub)
	contains(t, "text", text, "tree root     ", "weak          4 records from 1 on, in ", "signatures    each segment's first and last were checked; --all-signatures")
	out, _ := w.want(0, "", "audit", "verify", "--pub", pub, "--json")
	contains(t, "document", out, `"weak":{"commits":5,"records":4,"seq":1`)
	if err := b.w.Identify(b.id); err != nil {
		t.Fatal(err)
	}
	b.close()
	text, _ = w.want(0, "", "audit", "verify", "--pub", pub)
	contains(t, "text", text, "weak          nothing: the log identity has signed to the end")
	out, _ = w.want(0, "", "audit", "verify", "--pub", pub, "--json", "--all-signatures")
	if v := verdictOf(t, out); v["root"] == "" || v["countersigned"] == 0.0 || v["weak"].(map[string]any)["commits"] != 0.0 {
		t.Errorf("document %s", out)
	}
}

// A witness adds its signature to a checkpoint: it stays one.
func TestAgainstCosigned(t *testing.T) {
	w := newWorld(t)
	b := newTale(t, w.dir)
	cosigned := b.checkpoint() + "— witness.example/w1 AAAAAWrVkMkAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"
	b.close()
	pub := w.file("audit.pub", b.pub())
	text, _ := w.want(0, "", "audit", "verify", "--pub", pub, "--against", w.file("note", cosigned))
	contains(t, "text", text, "anchored      by ")
	if err := os.Truncate(filepath.Join(w.dir, "audit", "00000001.seg"), 0); err != nil {
		t.Fatal(err)
	}
	w.want(1, "", "audit", "verify", "--pub", pub, "--against", w.file("note", cosigned))
}
