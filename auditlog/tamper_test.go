package auditlog

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// threeSegments is a closed log: a genesis, a rotated and a restarted segment, two batches with records in each.
func threeSegments(t testing.TB) string {
	t.Helper()
	dir, w := newLog(t, testOptions())
	mustAppend(t, w, note1("one"), Entry{Kind: Intent, Subject: subject(1), Body: []byte("go"), Own: []byte("mine")})
	mustAppend(t, w, note1("two"))
	w.o.MaxSegment = 1
	mustAppend(t, w, Entry{Kind: Intent, Subject: subject(2)}, Entry{Kind: Result, Subject: subject(1)})
	w.o.MaxSegment = 1 << 30
	mustAppend(t, w, note1("three"), note1("four"))
	w.Close()
	w, open, err := Open(dir, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	if len(open) != 1 || open[0].Subject != subject(2) {
		t.Fatalf("open intents %v", open)
	}
	mustAppend(t, w, Entry{Kind: Result, Subject: subject(2)}, note1("five"))
	mustAppend(t, w, note1("six"), note1("seven"))
	w.Close()
	return dir
}

// piece is one frame of a segment.
type piece struct {
	off int
	typ byte
	b   []byte
}

func pieces(b []byte) (l []piece) {
	for off := 0; off < len(b); {
		if len(b)-off < prefix {
			return append(l, piece{off, 0, b[off:]})
		}
		n := min(prefix+int(binary.BigEndian.Uint32(b[off:])), len(b)-off) // the last one may be cut
		l = append(l, piece{off, b[off+4], b[off : off+n]})
		off += n
	}
	return l
}

func join(l []piece) []byte {
	var b []byte
	for _, p := range l {
		b = append(b, p.b...)
	}
	return b
}

// lastBatch is where the last batch of a segment begins.
func lastBatch(b []byte) int {
	l := pieces(b)
	for i := len(l) - 1; i >= 0; i-- {
		if l[i].typ == frameBatch || l[i].typ == frameHeader {
			return l[i].off
		}
	}
	return 0
}

func TestA01FlipEveryByte(t *testing.T) {
	dir := threeSegments(t)
	m, pub := load(t, dir), readPub(t, dir)
	wantVerdict(t, verify(t, m, pub, VerifyOptions{}), Intact)
	if len(m) != 3 {
		t.Fatalf("%d segments", len(m))
	}
	flips := 0
	for n := uint64(1); n <= 3; n++ {
		name := segmentName(n)
		data := m[name].Data
		last := lastBatch(data)
		if n == 3 && last < len(data)/2 {
			t.Fatal("the last batch is no last batch")
		}
		for i := 0; i < len(data); i += stride {
			mask := byte(1) << (i % 8)
			data[i] ^= mask
			r := verify(t, m, pub, VerifyOptions{AllSignatures: i%2 == 0})
			data[i] ^= mask
			flips++
			want := Broken
			if n == 3 && i >= last {
				want = Torn
			}
			if r.Verdict != want || r.Segment != name || r.Offset > int64(i) || r.Detail == "" {
				t.Fatalf("byte %d of %s flipped: %+v", i, name, r)
			}
		}
	}
	if flips < 3000/stride {
		t.Fatalf("only %d bytes", flips)
	}
}

// TestA01FlipThenOpen: what Verify calls broken, no writer continues; where it sees a crash, the writer goes on.
func TestA01FlipThenOpen(t *testing.T) {
	dir := threeSegments(t)
	m := load(t, dir)
	data := m[segmentName(3)].Data
	for i := 0; i < len(data); i += 7 * stride {
		c := copyFS(m)
		c[segmentName(3)].Data[i] ^= 0x10
		store(t, dir, c)
		w, _, err := Open(dir, testOptions())
		var fault *TamperError
		if i >= lastBatch(data) {
			if err != nil {
				t.Fatalf("byte %d of the last batch flipped: %v", i, err)
			}
			w.Close()
			r := verifyDir(t, dir, VerifyOptions{})
			wantVerdict(t, r, Intact)
			if r.Torn == 0 {
				t.Fatal("dropped bytes are not told")
			}
			continue
		}
		if !errors.As(err, &fault) || fault.Segment != segmentName(3) {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
	}
}

func TestA02FramesRemovedDoubledMoved(t *testing.T) {
	dir := threeSegments(t)
	m, pub := load(t, dir), readPub(t, dir)
	otherDir := threeSegments(t)
	other := load(t, otherDir)
	check := func(what, name string, l []piece) {
		t.Helper()
		c := copyFS(m)
		c[name].Data = join(l)
		for _, all := range []bool{false, true} {
			r := verify(t, c, pub, VerifyOptions{AllSignatures: all})
			if r.Verdict != Broken || r.Segment != name {
				t.Errorf("%s in %s: %+v", what, name, r)
			}
		}
	}
	for n := uint64(1); n <= 3; n++ {
		name := segmentName(n)
		l := pieces(m[name].Data)
		foreign := pieces(other[name].Data)
		end := len(l)
		if n == 3 {
			// In the last batch a crash could have done it.
			end = slices.IndexFunc(l, func(p piece) bool { return p.off == lastBatch(m[name].Data) })
		}
		for i := range end {
			check("removed", name, slices.Delete(slices.Clone(l), i, i+1))
			check("doubled", name, slices.Insert(slices.Clone(l), i, l[i]))
			taken := slices.Clone(l)
			taken[i] = foreign[i]
			check("taken from another log", name, taken)
			if i+1 < end {
				moved := slices.Clone(l)
				moved[i], moved[i+1] = moved[i+1], moved[i]
				check("moved", name, moved)
			}
		}
		check("last batch doubled", name, append(slices.Clone(l), pieces(m[name].Data[lastBatch(m[name].Data):])...))
	}
}

func TestA03SegmentsRemovedSwappedReplayed(t *testing.T) {
	dir := threeSegments(t)
	m, pub := load(t, dir), readPub(t, dir)
	a, b, c := segmentName(1), segmentName(2), segmentName(3)
	for _, x := range []struct {
		what, kind, segment string
		change              func(fstest.MapFS)
	}{
		{"first removed", tampered, a, func(m fstest.MapFS) { delete(m, a) }},
		{"middle removed", tampered, b, func(m fstest.MapFS) { delete(m, b) }},
		{"all removed", truncated, a, func(m fstest.MapFS) { clear(m) }},
		{"1 and 2 swapped", tampered, a, func(m fstest.MapFS) { m[a], m[b] = m[b], m[a] }},
		{"2 and 3 swapped", tampered, b, func(m fstest.MapFS) { m[b], m[c] = m[c], m[b] }},
		{"3 in place of 2", tampered, b, func(m fstest.MapFS) { m[b] = m[c]; delete(m, c) }},
		{"first renamed away", tampered, "0000001.seg", func(m fstest.MapFS) { m["0000001.seg"] = m[a]; delete(m, a) }},
		{"1 again as 4", tampered, segmentName(4), func(m fstest.MapFS) { m[segmentName(4)] = m[a] }},
		{"3 again as 4", tampered, segmentName(4), func(m fstest.MapFS) { m[segmentName(4)] = m[c] }},
		{"1 emptied", tampered, a, func(m fstest.MapFS) { m[a].Data = nil }},
		{"2 cut to its header's batch", tampered, b, func(m fstest.MapFS) { m[b].Data = join(pieces(m[b].Data)[:2]) }},
		{"a folder among them", tampered, segmentName(4), func(m fstest.MapFS) { m[segmentName(4)+"/x"] = m[a] }},
	} {
		f := copyFS(m)
		x.change(f)
		r := verify(t, f, pub, VerifyOptions{})
		if r.Verdict != Broken || r.Kind != x.kind || r.Segment != x.segment {
			t.Errorf("%s: %+v", x.what, r)
		}
	}
	// A first segment's batch cut off at a COMMIT is seen by the next header, and placed where it is missing.
	f := copyFS(m)
	f[a].Data = f[a].Data[:lastBatch(f[a].Data)]
	r := verify(t, f, pub, VerifyOptions{})
	wantFault(t, r, tampered, a)
	if r.Offset != int64(len(f[a].Data)) {
		t.Fatalf("place %+v", r)
	}
}

func TestA09SignaturesStrippedOrUnknown(t *testing.T) {
	dir := threeSegments(t)
	m, pub := load(t, dir), readPub(t, dir)
	strip := copyFS(m)
	for _, f := range strip {
		for _, p := range pieces(f.Data) {
			if p.typ == frameCommit || p.typ == frameHeader {
				clear(p.b[len(p.b)-ed25519.SignatureSize:])
			}
		}
	}
	r := verify(t, strip, pub, VerifyOptions{})
	if r.Verdict != Broken || r.Segment != segmentName(1) {
		t.Fatalf("signatures stripped: %+v", r)
	}
	// The COMMITs' alone, chain and all else made to fit.
	for n := uint64(1); n <= 3; n++ {
		f := copyFS(m)
		f[segmentName(n)].Data = resign(t, f[segmentName(n)].Data, testKeys().id, func(_ int, c *commit) { clear(c.sig[:]) })
		wantFault(t, verify(t, f, pub, VerifyOptions{}), unsigned, segmentName(n))
	}
	// Every segment rebuilt with fresh keys, all self-consistent: nobody certified them.
	for n := uint64(1); n <= 3; n++ {
		f := copyFS(m)
		f[segmentName(n)].Data = resign(t, f[segmentName(n)].Data, nil, nil)
		wantFault(t, verify(t, f, pub, VerifyOptions{}), unsigned, segmentName(n))
	}
	// A middle COMMIT's signature broken by the holder of the segment key, all later ones good.
	f := copyFS(m)
	spoil := func(i int, c *commit) {
		if i == 1 {
			c.sig[3] ^= 1
		}
	}
	p, err := ParsePub(pub)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := readSigner(filepath.Join(dir, segmentsFolder), p)
	if err != nil {
		t.Fatal(err)
	}
	f[segmentName(3)].Data = resign(t, f[segmentName(3)].Data, signer, spoil)
	r = verify(t, f, pub, VerifyOptions{AllSignatures: true})
	wantFault(t, r, unsigned, segmentName(3))
}

func TestA19LogRewritten(t *testing.T) {
	dir := threeSegments(t)
	pub := readPub(t, dir)
	// Somebody writes a whole new log with keys of his own and puts his audit.pub beside it.
	id, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	forged := t.TempDir()
	w, err := Create(forged, id, testOrigin, []string{testKeys().recipient}, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w, note1("lies"))
	w.Close()
	wantVerdict(t, verifyDir(t, forged, VerifyOptions{}), Intact)
	fsys := os.DirFS(filepath.Join(forged, segmentsFolder))
	r := verify(t, fsys, pub, VerifyOptions{})
	if r.Verdict != Broken || r.Segment != segmentName(1) {
		t.Fatalf("against the old pin: %+v", r)
	}
	fp, err := Fingerprint(pub)
	if err != nil || r.Fingerprint != fp {
		t.Fatalf("fingerprint %s, %s, %v", r.Fingerprint, fp, err)
	}
	if fp2, _ := Fingerprint(readPub(t, forged)); fp2 == fp {
		t.Fatal("two identities, one fingerprint")
	}
	// His audit.pub beside the old segments: the writer refuses too.
	if err := os.WriteFile(filepath.Join(dir, pubFile), readPub(t, forged), 0o600); err != nil {
		t.Fatal(err)
	}
	var fault *TamperError
	if _, _, err := Open(dir, testOptions()); !errors.As(err, &fault) {
		t.Fatalf("open beside a foreign audit.pub: %v", err)
	}
}

func TestA20RecipientsEdited(t *testing.T) {
	dir := threeSegments(t)
	pub := readPub(t, dir)
	_, mine, err := NewReader()
	if err != nil {
		t.Fatal(err)
	}
	edited := bytes.Replace(pub, []byte(testKeys().recipient), []byte(mine), 1)
	fsys := os.DirFS(filepath.Join(dir, segmentsFolder))
	wantFault(t, verify(t, fsys, edited, VerifyOptions{}), unsigned, pubFile)
	if err := os.WriteFile(filepath.Join(dir, pubFile), edited, 0o600); err != nil {
		t.Fatal(err)
	}
	before := load(t, dir)
	var fault *TamperError
	if _, _, err := Open(dir, testOptions()); !errors.As(err, &fault) || fault.Segment != pubFile {
		t.Fatalf("open with edited recipients: %v", err)
	}
	if after := load(t, dir); len(after) != len(before) {
		t.Fatal("something was written")
	}
	// Even signed again by the identity, the same serial cannot name others than the headers do.
	p, err := ParsePub(pub)
	if err != nil {
		t.Fatal(err)
	}
	p.Recipients = []string{mine}
	signed, err := p.sign(testKeys().id)
	if err != nil {
		t.Fatal(err)
	}
	wantFault(t, verify(t, fsys, signed, VerifyOptions{}), tampered, segmentName(1))
}

func TestVerifyUnreadable(t *testing.T) {
	dir := threeSegments(t)
	fsys := os.DirFS(filepath.Join(dir, segmentsFolder))
	for what, pub := range map[string][]byte{"empty": nil, "another file": []byte("ssh-ed25519 AAAA\n")} {
		if r, err := Verify(fsys, pub, VerifyOptions{}); err == nil {
			t.Errorf("%s as audit.pub: %+v", what, r)
		}
	}
	if r, err := Verify(os.DirFS(filepath.Join(dir, "nowhere")), readPub(t, dir), VerifyOptions{}); err == nil {
		t.Errorf("no folder: %+v", r)
	}
	if _, err := Verify(fsys, readPub(t, dir), VerifyOptions{Checkpoint: []byte("x")}); err == nil || !strings.Contains(err.Error(), "checkpoint") {
		t.Errorf("a checkpoint that is none: %v", err)
	}
}
