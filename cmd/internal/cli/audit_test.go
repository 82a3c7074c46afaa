package cli

import (
	"context"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// book is a log that a test makes.
type book struct {
	t        *testing.T
	dir      string
	id       ed25519.PrivateKey
	reader   string
	recovery string
	w        *auditlog.Writer
}

// emptyBook makes a log in dir with nothing in it.
func emptyBook(t *testing.T, dir, origin string) *book {
	t.Helper()
	b := &book{t: t, dir: dir}
	var err error
	if b.id, err = auditlog.NewIdentity(); err != nil {
		t.Fatal(err)
	}
	var readers [2]string
	if b.reader, readers[0], err = auditlog.NewReader(); err != nil {
		t.Fatal(err)
	}
	if b.recovery, readers[1], err = auditlog.NewReader(); err != nil {
		t.Fatal(err)
	}
	if b.w, err = auditlog.Create(dir, b.id, origin, readers[:], auditlog.Options{Now: func() time.Time { return now }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.w.Close() })
	return b
}

// newBook makes a log of two segments in dir, as a gateway leaves it.
func newBook(t *testing.T, dir, origin string) *book {
	t.Helper()
	b := emptyBook(t, dir, origin)
	exit := 0
	b.add(auditlog.Note, event.VaultCreated{VaultID: "vlt_1"})
	b.add(auditlog.Note, event.RunOpened{Run: run1, Agent: event.Peer{ProcessID: 1, Exe: hostile}})
	b.add(auditlog.Intent, event.ToolCalled{Call: event.Call{Action: act1, Run: run1, Epoch: ep1, Tool: api.ToolSSH, Target: "web"}, Digest: "d", Decision: "granted", Grant: "gr_1"})
	b.add(auditlog.Result, event.ToolFinished{Action: act1, Run: run1, Epoch: ep1, Outcome: "confirmed", Exit: &exit})
	b.reopen()
	b.add(auditlog.Note, event.RunOpened{Run: "run_01JV0000000000000000000009"})
	b.add(auditlog.Intent, event.ToolCalled{Call: event.Call{Action: act2, Run: run1, Epoch: ep1, Tool: api.ToolHTTP}, Digest: "d", Decision: "granted", Grant: "gr_1"})
	return b
}

func (b *book) add(k auditlog.Kind, e event.Event) {
	b.t.Helper()
	var subject [16]byte
	switch v := e.(type) {
	case event.ToolCalled:
		subject = event.Subject(v.Action)
	case event.ToolFinished:
		subject = event.Subject(v.Action)
	}
	if _, err := b.w.Append(context.Background(), auditlog.Entry{Kind: k, Subject: subject, Body: event.Encode(e)}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *book) close() {
	b.t.Helper()
	if err := b.w.Close(); err != nil {
		b.t.Fatal(err)
	}
}

// reopen begins the next segment.
func (b *book) reopen() {
	b.t.Helper()
	b.close()
	w, _, err := auditlog.Open(b.dir, auditlog.Options{Now: func() time.Time { return now.Add(time.Hour) }})
	if err != nil {
		b.t.Fatal(err)
	}
	b.w = w
}

func (b *book) checkpoint() string {
	b.t.Helper()
	note, err := b.w.Checkpoint(b.id)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(note)
}

func (b *book) pub() string {
	b.t.Helper()
	p, err := os.ReadFile(filepath.Join(b.dir, "audit.pub"))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(p)
}

func (b *book) fingerprint() string {
	b.t.Helper()
	f, err := auditlog.Fingerprint([]byte(b.pub()))
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

// copyTo copies the log into a new folder and returns it.
func (b *book) copyTo(name string) string {
	b.t.Helper()
	dir := filepath.Join(filepath.Dir(b.dir), name)
	if err := os.MkdirAll(filepath.Join(dir, "audit"), 0o700); err != nil {
		b.t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(b.dir, "audit", "*.seg"))
	if err != nil || len(segments) == 0 {
		b.t.Fatalf("segments %v, %v", segments, err)
	}
	for _, from := range append(segments, filepath.Join(b.dir, "audit.pub")) {
		to, err := filepath.Rel(b.dir, from)
		if err != nil {
			b.t.Fatal(err)
		}
		data, err := os.ReadFile(from)
		if err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), data, 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	return dir
}

// change edits one file of a copied log.
func change(t *testing.T, dir, name string, edit func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, edit(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte { b[at] ^= 1; return b }
}

func verdictOf(t *testing.T, out string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return v
}

func TestVerify(t *testing.T) {
	w := newWorld(t)
	b := newBook(t, w.dir, "sallyport/test")
	b.close()
	pub := w.file("audit.pub", b.pub())

	plain := b.copyTo("plain")
	flipped := b.copyTo("flipped")
	change(t, flipped, "audit/00000001.seg", flip(900))
	torn := b.copyTo("torn")
	change(t, torn, "audit/00000002.seg", func(d []byte) []byte { return d[:len(d)-3] })
	badPub := b.copyTo("badpub")
	change(t, badPub, "audit.pub", func(d []byte) []byte { return []byte(strings.Replace(string(d), "serial 1", "serial 2", 1)) })
	noPub := b.copyTo("nopub")
	os.Remove(filepath.Join(noPub, "audit.pub"))
	gone := b.copyTo("gone")
	os.RemoveAll(filepath.Join(gone, "audit"))
	other := newBook(t, filepath.Join(filepath.Dir(w.dir), "other"), "sallyport/test")
	other.close()
	replaced := other.copyTo("replaced")
	half := b.copyTo("half") // only the key was exchanged
	change(t, half, "audit.pub", func([]byte) []byte { return []byte(other.pub()) })
	link := filepath.Join(filepath.Dir(w.dir), "link.pub")
	if err := os.Symlink(filepath.Join(plain, "audit.pub"), link); err != nil {
		t.Fatal(err)
	}
	hard := filepath.Join(filepath.Dir(w.dir), "hard.pub")
	if err := os.Link(filepath.Join(plain, "audit.pub"), hard); err != nil {
		t.Fatal(err)
	}

	for name, tt := range map[string]struct {
		args    []string
		exit    int
		verdict string // "": no document
		says    string
	}{
		"pub":                          {[]string{plain, "--pub", pub}, 0, "intact", ""},
		"audit folder itself":          {[]string{filepath.Join(plain, "audit"), "--pub", pub}, 0, "intact", ""},
		"fingerprint":                  {[]string{plain, "--fingerprint", b.fingerprint()}, 0, "intact", ""},
		"fingerprint in capitals":      {[]string{plain, "--fingerprint", strings.ToUpper(b.fingerprint())}, 0, "intact", ""},
		"bare fingerprint":             {[]string{plain, "--fingerprint", strings.TrimPrefix(b.fingerprint(), "sha256:")}, 0, "intact", ""},
		"only the folder":              {[]string{plain}, 3, "unpinned", ""},
		"pub inside the folder":        {[]string{plain, "--pub", filepath.Join(plain, "audit.pub")}, 3, "unpinned", ""},
		"pub is a link into it":        {[]string{plain, "--pub", link}, 3, "unpinned", ""},
		"pub is the same file":         {[]string{plain, "--pub", hard}, 3, "unpinned", ""},
		"copy inside the folder":       {[]string{noPub, "--pub", place(t, noPub, "key.pub", b.pub())}, 3, "unpinned", ""},
		"without audit.pub":            {[]string{b.copyWithout(t, "bare"), "--pub", pub}, 0, "intact", ""},
		"flipped":                      {[]string{flipped, "--pub", pub}, 1, "broken", ""},
		"flipped, unpinned":            {[]string{flipped}, 1, "broken", ""},
		"torn":                         {[]string{torn, "--pub", pub}, 3, "torn", ""},
		"torn, unpinned":               {[]string{torn}, 3, "torn", ""},
		"audit.pub edited (A20)":       {[]string{badPub, "--pub", pub}, 1, "broken", ""},
		"audit.pub edited, unpinned":   {[]string{badPub}, 1, "broken", ""},
		"log and audit.pub replaced":   {[]string{replaced, "--pub", pub}, 1, "broken", ""},
		"replaced, other fingerprint":  {[]string{replaced, "--fingerprint", b.fingerprint()}, 1, "broken", ""},
		"audit.pub replaced alone":     {[]string{half, "--pub", pub}, 1, "broken", ""},
		"audit.pub replaced, unpinned": {[]string{half}, 1, "broken", ""},
		"segments gone":                {[]string{gone, "--pub", pub}, 1, "broken", ""},
		"no audit.pub and no --pub":    {[]string{filepath.Join(noPub, "audit")}, 2, "", "--pub"},
		"two keys":                     {[]string{plain, "--pub", pub, "--fingerprint", b.fingerprint()}, 2, "", "one of"},
		"short fingerprint":            {[]string{plain, "--fingerprint", "sha256:abcd"}, 2, "", "64 hexadecimal"},
		"pub that is none":             {[]string{plain, "--pub", w.file("x.pub", "x")}, 2, "", "audit.pub"},
		"pub that is not there":        {[]string{plain, "--pub", "/none"}, 2, "", "no such file"},
		"against nothing":              {[]string{plain, "--pub", pub, "--against", "/none"}, 2, "", "no such file"},
		"against nonsense":             {[]string{plain, "--pub", pub, "--against", w.file("x.note", "x")}, 2, "", "checkpoint"},
		"a file":                       {[]string{pub}, 2, "", "is no folder"},
		"an empty folder":              {[]string{t.TempDir()}, 2, "", "neither audit.pub nor audit/"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs := w.want(tt.exit, "", append([]string{"audit", "verify", "--json"}, tt.args...)...)
			if tt.verdict == "" {
				contains(t, "stderr", errs, tt.says)
				return
			}
			v := verdictOf(t, out)
			if v["verdict"] != tt.verdict {
				t.Errorf("verdict %v", v)
			}
			if (v["kind"] != nil) != (tt.verdict == "broken") {
				t.Errorf("kind %v with verdict %s", v["kind"], tt.verdict)
			}
			text, _ := w.want(tt.exit, "", append([]string{"audit", "verify"}, tt.args...)...)
			contains(t, "text", text, "verdict       "+tt.verdict+"\n")
			if tt.verdict != "broken" {
				contains(t, "text", text, "truncation before 2031-04-05 06:07:08Z cannot be excluded: no checkpoint given", b.fingerprint())
			}
			if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && unsafe(r) }) {
				t.Errorf("raw text: %q", text)
			}
		})
	}
}

// place writes a file into dir.
func place(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// copyWithout is a copy that lacks audit.pub.
func (b *book) copyWithout(t *testing.T, name string) string {
	t.Helper()
	dir := b.copyTo(name)
	if err := os.Remove(filepath.Join(dir, "audit.pub")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestVerifyDocument(t *testing.T) {
	w := newWorld(t)
	b := newBook(t, w.dir, "sallyport/test")
	note := w.file("note", b.checkpoint())
	b.close()
	pub := w.file("audit.pub", b.pub())
	out, errs := w.want(0, "", "audit", "verify", w.dir, "--pub", pub, "--against", note, "--json")
	v := verdictOf(t, out)
	for _, key := range []string{"verdict", "kind", "segment", "offset", "seq", "records", "commits", "head", "root", "fingerprint", "anchored", "openIntents", "meaning"} {
		if _, ok := v[key]; !ok {
			t.Errorf("no %q in %s", key, out)
		}
	}
	if v["records"] != 6.0 || v["openIntents"] != 1.0 || v["fingerprint"] != b.fingerprint() || v["meaning"] != nil || v["anchored"] == nil || v["head"] == "" {
		t.Errorf("document %s", out)
	}
	if errs != "" || strings.Count(out, "\n") != 1 {
		t.Errorf("stdout %q, stderr %q", out, errs)
	}
	text, _ := w.want(0, "", "audit", "verify", w.dir, "--pub", pub, "--against", note)
	contains(t, "text", text, "segments      2", "records       6 in ", "signed        2031-04-05 06:07:08Z to 2031-04-05 07:07:08Z",
		"open intents  1", "torn          none", "throughput    ", "anchored      by "+note, "pinned by "+pub)
	lacks(t, "text", text, "cannot be excluded")

	// A broken one names kind, file, offset and sequence.
	broken := b.copyTo("broken")
	change(t, broken, "audit/00000002.seg", flip(700))
	text, _ = w.want(1, "", "audit", "verify", broken, "--pub", pub)
	contains(t, "text", text, "kind          tampered", "segment       00000002.seg", "offset        0", "sequence      5", "what          ")

	// The checkpoint shows what was cut off; without it the output says that it could have been.
	cut := b.copyTo("cut")
	os.Remove(filepath.Join(cut, "audit", "00000002.seg"))
	text, _ = w.want(1, "", "audit", "verify", cut, "--pub", pub, "--against", note)
	contains(t, "text", text, "kind          truncated")
	text, _ = w.want(0, "", "audit", "verify", cut, "--pub", pub)
	contains(t, "text", text, "cannot be excluded")
}

// While the gateway writes, the log is intact or live, never torn.
func TestVerifyLive(t *testing.T) {
	w := newWorld(t)
	b := newBook(t, w.dir, "sallyport/test")
	out, _ := w.want(0, "", "audit", "verify", "--fingerprint", b.fingerprint(), "--json")
	if v := verdictOf(t, out); v["verdict"] != "intact" && v["verdict"] != "live" {
		t.Errorf("verdict %v", v)
	}
	if !(folder{top: w.dir}).live() {
		t.Error("nobody seems to hold the log")
	}
	b.close()
	if (folder{top: w.dir}).live() {
		t.Error("a closed log seems to be held")
	}
}

// A reviewer with nothing but the folder and the key has no home at all.
func TestVerifyWithoutHome(t *testing.T) {
	w := newWorld(t)
	b := newBook(t, w.dir, "sallyport/test")
	b.close()
	pub := w.file("audit.pub", b.pub())
	dir := w.dir
	w.env.getenv = func(name string) string { return map[string]string{"SALLYPORT_HOME": "relative"}[name] }
	w.want(0, "", "audit", "verify", dir, "--pub", pub)
	w.want(3, "", "audit", "verify", dir)
	w.want(1, "", "audit", "verify")
	w.want(0, "", "audit", "sessions", dir, "--pub", pub, "--identity", w.file("id", b.reader))
}

// What a terminal gets besides: a bar and colours, both on request only.
func TestTerminal(t *testing.T) {
	w := newWorld(t)
	b := newBook(t, w.dir, "sallyport/test")
	b.close()
	w.env.outTTY = true
	out, _ := w.want(0, "", "audit", "verify", "--fingerprint", b.fingerprint())
	contains(t, "stdout", out, "\x1b[32mintact\x1b[0m")
	getenv := w.env.getenv
	w.env.getenv = func(name string) string {
		if name == "NO_COLOR" {
			return "1"
		}
		return getenv(name)
	}
	out, _ = w.want(0, "", "audit", "verify", "--fingerprint", b.fingerprint())
	lacks(t, "stdout", out, "\x1b")
}

// A hostile copy of a log can't make the reviewer wait: what should be a file and is none is said at once.
func TestVerifyPubIsNoFile(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "audit"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "audit.pub"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs := w.want(2, "", "audit", "verify", dir)
	contains(t, "stderr", errs, "audit.pub is no file")
}
