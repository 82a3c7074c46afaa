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

// FuzzFolder: whole folders, made of the true segments by an edit script. Verify never panics, gives a verdict, says
// the same as one walk through all, and calls intact only what the writer wrote, with a checkpoint: nothing else at all.
func FuzzFolder(f *testing.F) {
	src := filepath.Join(vectorsDir, "intact")
	pub, cp := seeds(f, "intact/audit.pub")[0], seeds(f, "intact/checkpoint")[0]
	good := fstest.MapFS{}
	for i, b := range seeds(f, "intact/*.seg") {
		good[segmentName(uint64(i+1))] = &fstest.MapFile{Data: b}
	}
	if len(good) != 2 || !exists(src) {
		f.Fatal("no vector")
	}
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 10, 1})
	f.Add([]byte{1, 1, 1, 0, 200, 2, 0, 0, 0, 90, 3, 1, 2, 0, 0})
	f.Add([]byte{4, 0, 0, 1, 0, 5, 1, 0, 2, 2})
	f.Fuzz(func(t *testing.T, script []byte) {
		m := copyFS(good)
		for ; len(script) >= 5; script = script[5:] {
			edit(m, script[0], script[1], int(script[2])<<8|int(script[3]), script[4])
		}
		r, err := Verify(m, pub, VerifyOptions{Checkpoint: cp})
		if err != nil {
			t.Fatal(err)
		}
		if same := sameLog(m, good); (r.Verdict == Intact) != same && !(r.Verdict == Intact && unstarted(m, good)) {
			t.Fatalf("same %v, report %+v", same, r)
		}
		bare, err := Verify(m, pub, VerifyOptions{AllSignatures: script != nil && len(script)%2 == 1})
		if err != nil || bare.Verdict == "" {
			t.Fatalf("report %+v, %v", bare, err)
		}
		if kind, segment, _, _ := inOneGo(t, m, pub); kind != "" && (bare.Kind != kind && bare.Kind != unsigned || bare.Segment != segment) {
			t.Fatalf("one walk says %s in %s, side by side %+v", kind, segment, bare)
		}
	})
}

// edit changes one file: a byte, its length, its name, a copy from another.
func edit(m fstest.MapFS, op, which byte, at int, v byte) {
	n := segmentName(uint64(which%4) + 1)
	f := m[n]
	if f == nil {
		f = &fstest.MapFile{}
	}
	at = min(at, len(f.Data))
	switch op % 6 {
	case 0:
		if at < len(f.Data) {
			f.Data[at] ^= v
		}
	case 1:
		f.Data = f.Data[:at]
	case 2:
		f.Data = append(f.Data, make([]byte, at)...)
		if at > 0 {
			f.Data[len(f.Data)-1] = v
		}
	case 3:
		if from := m[segmentName(uint64(v%4)+1)]; from != nil {
			f.Data = append(f.Data[:at:at], from.Data...)
		}
	case 4:
		delete(m, n)
		return
	case 5:
		f.Data = append(f.Data[:at:at], f.Data[min(at+int(v), len(f.Data)):]...)
	}
	m[n] = f
}

// unstarted: the true log, and behind it segments that were never begun.
func unstarted(m, good fstest.MapFS) bool {
	c := copyFS(m)
	for n := uint64(len(good)) + 1; c[segmentName(n)] != nil; n++ {
		if len(bytes.Trim(c[segmentName(n)].Data, "\x00")) > 0 {
			return false
		}
		delete(c, segmentName(n))
	}
	return sameLog(c, good)
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
