package auditlog

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// TestTreeIsRFC6962 holds the edge to tlog.
func TestTreeIsRFC6962(t *testing.T) {
	var stored []tlog.Hash
	r := tlog.HashReaderFunc(func(at []int64) (l []tlog.Hash, _ error) {
		for _, i := range at {
			l = append(l, stored[i])
		}
		return l, nil
	})
	var e edge
	for n := range uint64(200) {
		c := commit{seq: n * 3, time: int64(n) << 40, head: [32]byte{byte(n)}}
		data := slices.Concat([]byte{0, 0, 0, 0, 0, 0, byte(c.seq >> 8), byte(c.seq)}, []byte{0, 0, byte(n), 0, 0, 0, 0, 0}, c.head[:])
		if c.leaf() != tlog.RecordHash(data) {
			t.Fatal("another leaf")
		}
		l, err := tlog.StoredHashes(int64(n), data, r)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, l...)
		want, err := tlog.TreeHash(int64(n+1), r)
		if err != nil {
			t.Fatal(err)
		}
		if e.rootWith(n, c.leaf()) != want {
			t.Fatalf("size %d: another root", n+1)
		}
		e = e.with(n, c.leaf())
		if e.root() != want || len(e) != edgeSize(n+1) {
			t.Fatalf("size %d: another edge", n+1)
		}
		if leaves(int64(len(stored))) != int64(n+1) {
			t.Fatalf("%d hashes are %d leaves", len(stored), leaves(int64(len(stored))))
		}
	}
	empty, err := tlog.TreeHash(0, r)
	if err != nil || (edge{}).root() != empty {
		t.Fatal("another empty root")
	}
}

func TestProve(t *testing.T) {
	dir, w := newLog(t, testOptions())
	p, err := ParsePub(readPub(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	var cps []Checkpoint
	mark := func() {
		t.Helper()
		b, err := w.Checkpoint(testKeys().id)
		if err != nil {
			t.Fatal(err)
		}
		c, err := ParseCheckpoint(b, p)
		if err != nil {
			t.Fatal(err)
		}
		if h := w.Head(); c.Size != int64(h.Commits) || c.Seq != h.Seq || c.Head != h.Hash || c.Root != h.Root || c.Origin != testOrigin || c.Segment != w.live.seg.n || c.Time.IsZero() {
			t.Fatalf("checkpoint %+v", c)
		}
		cps = append(cps, c)
	}
	check := func(what string) {
		t.Helper()
		for i, old := range cps {
			proof, size, root, err := w.Prove(old.Size)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if err := tlog.CheckTree(proof, size, root, old.Size, old.Root); err != nil {
				t.Fatalf("%s: %d to %d: %v", what, old.Size, size, err)
			}
			to := cps[min(i+2, len(cps)-1)]
			if proof, err = w.ProveTo(old.Size, to.Size); err != nil {
				t.Fatal(err)
			}
			if err := tlog.CheckTree(proof, to.Size, to.Root, old.Size, old.Root); err != nil {
				t.Fatalf("%s: %d to %d: %v", what, old.Size, to.Size, err)
			}
		}
	}
	for i := range 40 {
		mark()
		if i%9 == 0 {
			w.o.MaxSegment = 1
		}
		mustAppend(t, w, note1("x"), note1("y"))
		w.o.MaxSegment = 1 << 30
		if i%7 == 0 {
			check("while it grows")
		}
	}
	tree := filepath.Join(w.folder, treeFile)
	for what, spoil := range map[string]func(b []byte) []byte{
		"cut":           func(b []byte) []byte { return b[:len(b)-40] },
		"cut to a hash": func(b []byte) []byte { return b[:len(b)-32] },
		"damaged":       func(b []byte) []byte { b[70] ^= 1; return b },
		"longer":        func(b []byte) []byte { return append(b, make([]byte, 640)...) },
		"gone":          func(b []byte) []byte { return nil },
	} {
		b, err := os.ReadFile(tree)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(tree, spoil(b), 0o600); err != nil {
			t.Fatal(err)
		}
		check(what)
	}
	w.Close()
	w, _, err = openLog(dir, testOptions(), quickDisk{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	mark()
	mustAppend(t, w, note1("z"))
	check("reopened")
	for _, bad := range [][2]int64{{0, 1}, {-1, 3}, {5, 4}, {1, int64(w.Head().Commits) + 1}} {
		if p, err := w.ProveTo(bad[0], bad[1]); err == nil {
			t.Errorf("%v: %v", bad, p)
		}
	}
}

// TestCheckpointWithWitness: a cosignature beside the log's own changes nothing, and without the log's own it is none.
func TestCheckpointWithWitness(t *testing.T) {
	dir, w := newLog(t, testOptions())
	pub := readPub(t, dir)
	p, err := ParsePub(pub)
	if err != nil {
		t.Fatal(err)
	}
	cp, err := w.Checkpoint(testKeys().id)
	if err != nil {
		t.Fatal(err)
	}
	id, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	s, err := newNoteSigner("witness.example", id)
	if err != nil {
		t.Fatal(err)
	}
	own, err := noteVerifier(testOrigin, testKeys().id.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(cp, note.VerifierList(own))
	if err != nil {
		t.Fatal(err)
	}
	both, err := note.Sign(n, s)
	if err != nil {
		t.Fatal(err)
	}
	r := verifyDir(t, dir, VerifyOptions{Checkpoint: both})
	wantVerdict(t, r, Intact)
	if r.Anchored == "" {
		t.Fatal("not anchored")
	}
	lines := strings.SplitAfter(string(both), "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "— "+testOrigin) })
	if _, err := ParseCheckpoint([]byte(strings.Join(slices.Delete(lines, i, i+1), "")), p); err == nil {
		t.Fatal("a witness alone makes no checkpoint")
	}
}
