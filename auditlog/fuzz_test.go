package auditlog

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

// seeds are the files of the vectors that match; none is an error.
func seeds(f *testing.F, pattern string) (l [][]byte) {
	f.Helper()
	names, err := filepath.Glob(filepath.Join(vectorsDir, pattern))
	if err != nil || len(names) == 0 {
		f.Fatalf("no seed %s (%v)", pattern, err)
	}
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			f.Fatal(err)
		}
		l = append(l, b)
	}
	return l
}

// FuzzFrames: whatever parses prints as it was.
func FuzzFrames(f *testing.F) {
	for _, b := range seeds(f, "explained/*.seg") {
		for _, p := range pieces(b) {
			f.Add(p.typ, p.b[prefix:])
		}
	}
	f.Fuzz(func(t *testing.T, typ byte, body []byte) {
		switch typ {
		case frameHeader:
			if h, err := parseHeader(body); err == nil && !bytes.Equal(h.frame()[prefix:], body) {
				t.Fatal("a header prints otherwise")
			}
		case frameCommit:
			if c, err := parseCommit(body); err == nil && !bytes.Equal(c.appendFrame(nil)[prefix:], body) {
				t.Fatal("a commit prints otherwise")
			}
		case frameRecord:
			if s, err := parseRecord(body); err == nil && recordHead+len(s.own)+len(s.box) != len(body) {
				t.Fatal("a record loses bytes")
			}
		}
	})
}

// FuzzVerify: no bytes in place of a segment make Verify panic, and none but the true ones make the log intact.
func FuzzVerify(f *testing.F) {
	pub := seeds(f, "intact/audit.pub")[0]
	cp := seeds(f, "intact/checkpoint")[0]
	good := seeds(f, "intact/*.seg")
	for _, b := range append(seeds(f, "*/*.seg"), nil) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for i := range good {
			m := fstest.MapFS{segmentName(1): {Data: good[0]}, segmentName(2): {Data: good[1]}}
			m[segmentName(uint64(i+1))].Data = b
			r, err := Verify(m, pub, VerifyOptions{Checkpoint: cp})
			if err != nil {
				t.Fatal(err)
			}
			same := bytes.HasPrefix(b, good[i]) && len(bytes.Trim(b[len(good[i]):], "\x00")) == 0 // preallocated space says nothing
			if same != (r.Verdict == Intact) || r.Verdict == "" {
				t.Fatalf("report %+v", r)
			}
		}
	})
}

// FuzzPub: what is taken is canonical and signed.
func FuzzPub(f *testing.F) {
	for _, b := range seeds(f, "*/audit.pub") {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePub(b)
		if err == nil && !bytes.HasPrefix(b, []byte(p.text()+"\n— ")) {
			t.Fatalf("prints otherwise: %+v", p)
		}
	})
}

// FuzzCheckpointText: what is taken prints as it was.
func FuzzCheckpointText(f *testing.F) {
	const origin = "vectors.example/1"
	for _, b := range seeds(f, "*/checkpoint") {
		text, _, _ := bytes.Cut(b, []byte("\n\n"))
		f.Add(string(text) + "\n")
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseText(text, origin)
		if err == nil && string(c.text(origin)) != text {
			t.Fatalf("prints otherwise: %+v", c)
		}
	})
}
