package auditlog

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var update = flag.Bool("update", false, "write testdata/vectors anew")

const vectorsDir = "testdata/vectors"

// verdictLine is what a vector's verdict file holds.
func verdictLine(r Report) string {
	return fmt.Sprintf("%s kind=%s segment=%s offset=%d seq=%d records=%d commits=%d open=%d torn=%d countersigned=%d weak=%d root=%s\n",
		r.Verdict, r.Kind, r.Segment, r.Offset, r.Seq, r.Records, r.Commits, r.OpenIntents, r.Torn, r.Countersigned, r.Weak.Commits, r.Root)
}

// TestVectors holds the verifier to logs that lie in the repository, as they were written once.
func TestVectors(t *testing.T) {
	if *update {
		writeVectors(t)
	}
	dirs, err := filepath.Glob(filepath.Join(vectorsDir, "*", "verdict"))
	if err != nil || len(dirs) < 9 {
		t.Fatalf("only %d vectors (%v)", len(dirs), err)
	}
	reader, err := os.ReadFile(filepath.Join(vectorsDir, "reader.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range dirs {
		dir := filepath.Dir(f)
		name := filepath.Base(dir)
		want, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var o VerifyOptions
		if cp, err := os.ReadFile(filepath.Join(dir, "checkpoint")); err == nil {
			o.Checkpoint = cp
		}
		for _, o.AllSignatures = range []bool{false, true} {
			r := verify(t, os.DirFS(dir), readPub(t, dir), o)
			if got := verdictLine(r); got != string(want) {
				t.Errorf("%s: %swant %s(%s)", name, got, want, r.Detail)
			}
			if r.Verdict == Broken {
				continue
			}
			l := readAll(t, os.DirFS(dir), readPub(t, dir), string(reader))
			if int64(len(l)) != r.Records || string(l[0].Body) != "first" {
				t.Errorf("%s: read %v", name, l)
			}
		}
	}
}

// writeVectors makes one log, rotated, crashed and explained, and its damaged copies.
func writeVectors(t *testing.T) {
	identity, recipient, err := NewReader()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w, err := Create(dir, testKeys().id, "vectors.example/1", []string{recipient}, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w, Entry{Kind: Note, Body: []byte("first"), Own: []byte("own")}, Entry{Kind: Intent, Subject: subject(1), Body: []byte("go")})
	if err := w.Identify(testKeys().id); err != nil {
		t.Fatal(err)
	}
	w.o.MaxSegment = 1
	mustAppend(t, w, Entry{Kind: Result, Subject: subject(1), Body: []byte("went")})
	w.o.MaxSegment = 1 << 30
	if err := w.Identify(nil); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w, Entry{Kind: Intent, Subject: subject(2)}, note1("second"))
	cp, err := w.Checkpoint(testKeys().id)
	if err != nil {
		t.Fatal(err)
	}
	key := slices.Clone(w.live.seg.sign)
	w.Close()
	m := load(t, dir)
	pub := readPub(t, dir)
	one, two, three := segmentName(1), segmentName(2), segmentName(3)
	vector := func(name string, pub, cp []byte, change func(m fstest.MapFS)) {
		c := copyFS(m)
		change(c)
		out := filepath.Join(vectorsDir, name)
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(out, 0o755); err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{pubFile: pub, "verdict": []byte(verdictLine(verify(t, c, pub, VerifyOptions{Checkpoint: cp})))}
		if cp != nil {
			files["checkpoint"] = cp
		}
		for k, f := range c {
			files[k] = f.Data
		}
		for k, b := range files {
			if err := os.WriteFile(filepath.Join(out, k), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	cut := func(m fstest.MapFS, n string, by int) { m[n].Data = m[n].Data[:len(m[n].Data)-by] }
	vector("intact", pub, cp, func(fstest.MapFS) {})
	vector("unstarted", pub, nil, func(m fstest.MapFS) { m[three] = &fstest.MapFile{} })
	vector("preallocated", pub, cp, func(m fstest.MapFS) {
		m[one].Data = append(m[one].Data, make([]byte, 100)...)
		m[two].Data = append(m[two].Data, make([]byte, 3)...)
	})
	forge := func(name string, f func(i int, c *commit)) {
		vector(name, pub, nil, func(m fstest.MapFS) { m[two].Data = rebuild(t, m[two].Data, "vectors.example/1", key, f, nil) })
	}
	forge("forged-root", func(i int, c *commit) {
		if i == 3 {
			c.root[0] ^= 1
		}
	})
	forge("uncountersigned", func(i int, c *commit) { clear(c.idSig[:]) })
	vector("torn", pub, nil, func(m fstest.MapFS) { cut(m, two, 100) })
	vector("truncated", pub, cp, func(m fstest.MapFS) { m[two].Data = m[two].Data[:lastBatch(m[two].Data)] })
	vector("flipped", pub, nil, func(m fstest.MapFS) { m[two].Data[len(m[two].Data)/2] ^= 1 })
	vector("removed", pub, nil, func(m fstest.MapFS) { delete(m, one) })
	vector("unsigned", pub, nil, func(m fstest.MapFS) { m[two].Data = resignAs(t, m[two].Data, "vectors.example/1", nil, nil) })
	vector("edited-pub", bytes.Replace(pub, []byte("serial 1"), []byte("serial 2"), 1), nil, func(fstest.MapFS) {})
	c := copyFS(m)
	cut(c, two, 100)
	store(t, dir, c)
	w, _, err = Open(dir, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w, note1("after"))
	w.Close()
	m = load(t, dir)
	vector("explained", pub, nil, func(fstest.MapFS) {})
	vector("explained-then-edited", pub, nil, func(m fstest.MapFS) { cut(m, two, 1) })
	// The readers change; who pinned the older audit.pub can follow.
	if w, _, err = Open(dir, testOptions()); err != nil {
		t.Fatal(err)
	}
	_, second, err := NewReader()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Recipients(testKeys().id, []string{recipient, second}); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w, note1("for two"))
	w.Close()
	m = load(t, dir)
	vector("new-recipients", pub, nil, func(fstest.MapFS) {})
	vector("new-recipients-pinned", readPub(t, dir), nil, func(fstest.MapFS) {})
	if err := os.WriteFile(filepath.Join(vectorsDir, "reader.txt"), []byte("# opens every vector; no secret\n"+identity+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestPubEveryByteMatters(t *testing.T) {
	dir, w := newLog(t, testOptions())
	w.Close()
	pub := readPub(t, dir)
	p, err := ParsePub(pub)
	if err != nil {
		t.Fatal(err)
	}
	if p.Origin != testOrigin || p.Serial != 1 || !p.Identity.Equal(testKeys().id.Public()) || len(p.Recipients) != 1 {
		t.Fatalf("pub %+v", p)
	}
	again, err := p.sign(testKeys().id)
	if err != nil || !bytes.Equal(again, pub) {
		t.Fatalf("printed again: %q %v", again, err)
	}
	for i := range pub {
		for _, mask := range []byte{1, 0x20, 0x80} {
			b := bytes.Clone(pub)
			b[i] ^= mask
			if p, err := ParsePub(b); err == nil {
				t.Fatalf("byte %d ^ %#x: %+v", i, mask, p)
			}
		}
		if _, err := ParsePub(pub[:i]); err == nil {
			t.Fatalf("cut at %d", i)
		}
		if i > 0 {
			if _, err := ParsePub(pub[i:]); err == nil {
				t.Fatalf("from %d on", i)
			}
		}
	}
	stranger, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	byStranger, err := p.sign(stranger)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.SplitAfter(string(byStranger), "\n\n")[1]
	for what, b := range map[string][]byte{
		"signed by another key": byStranger,
		"a second signature":    append(bytes.Clone(pub), line...),
		"twice":                 append(bytes.Clone(pub), pub...),
	} {
		if _, err := ParsePub(b); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
}

func TestRecipients(t *testing.T) {
	k := testKeys()
	id1, pq1, err := NewReader()
	if err != nil {
		t.Fatal(err)
	}
	id2, pq2, err := NewReader()
	if err != nil {
		t.Fatal(err)
	}
	for what, x := range map[string]struct {
		list []string
		ok   bool
	}{
		"none":          {nil, false},
		"classic":       {[]string{k.recipient}, true},
		"hybrid":        {[]string{pq1, pq2}, true},
		"mixed":         {[]string{pq1, k.recipient}, false},
		"mixed, turned": {[]string{k.recipient, pq1}, false},
		"twice":         {[]string{pq1, pq1}, false},
		"an identity":   {[]string{id1}, false},
		"upper case":    {[]string{strings.ToUpper(k.recipient)}, false},
		"with a space":  {[]string{k.recipient + " "}, false},
		"two in one":    {[]string{k.recipient + "\n" + k.recipient}, false},
		"empty":         {[]string{""}, false},
	} {
		err := ParseRecipients(x.list)
		if (err == nil) != x.ok {
			t.Errorf("%s: %v", what, err)
		}
		if err != nil && strings.Contains(strings.ToUpper(err.Error()), "AGE-SECRET") {
			t.Errorf("%s: the error repeats a secret", what)
		}
	}
	dir := t.TempDir()
	w, err := Create(dir, k.id, testOrigin, []string{pq1, pq2}, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w, Entry{Kind: Note, Body: []byte("for two"), Own: []byte("mine")})
	w.Close()
	fsys, pub := os.DirFS(filepath.Join(dir, segmentsFolder)), readPub(t, dir)
	for _, id := range []string{id1, id2} {
		if l := readAll(t, fsys, pub, id); len(l) != 1 || string(l[0].Body) != "for two" {
			t.Fatalf("read %v", l)
		}
	}
	for what, id := range map[string]string{"a stranger": k.reader, "no identity": "AGE-SECRET-KEY-NONSENSE"} {
		n := 0
		for r, err := range Read(fsys, pub, id) {
			if n++; err == nil || n > 1 || r.Body != nil || strings.Contains(err.Error(), id) {
				t.Fatalf("%s read %v, %v", what, r, err)
			}
		}
		if n != 1 {
			t.Fatalf("%s: %d yields", what, n)
		}
	}
	raw := load(t, dir)[segmentName(1)].Data
	if bytes.Contains(raw, []byte("for two")) || !bytes.Contains(raw, []byte("mine")) {
		t.Fatal("a body lies in the clear, or own does not")
	}
	for _, o := range []string{"", "two words", "a+b", "a\nb", strings.Repeat("x", 256), "\xff"} {
		if w, err := Create(t.TempDir(), k.id, o, []string{pq1}, Options{}); err == nil {
			w.Close()
			t.Errorf("origin %q was taken", o)
		}
	}
}
