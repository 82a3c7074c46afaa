package auditlog

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/fstest"
)

// realPart looks for a program that not every machine has.
func realPart(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("SALLYPORT_REAL") == "require" {
		t.Fatalf("%s: %v", name, err)
	}
	t.Skipf("%s: %v", name, err)
	return ""
}

// long is how often a loop runs: a twentieth, or all of it with SALLYPORT_LONG=1.
func long(n int) int {
	if os.Getenv("SALLYPORT_LONG") == "1" {
		return n
	}
	return n / 20
}

// TestSecondVerifier: testdata/verify.py, written from the package comment, agrees on every vector, and on copies
// damaged at random.
func TestSecondVerifier(t *testing.T) {
	python := realPart(t, "python3")
	second := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(python, append([]string{"testdata/verify.py"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("verify.py %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	dirs, err := filepath.Glob(filepath.Join(vectorsDir, "*", "verdict"))
	if err != nil || len(dirs) < 15 {
		t.Fatalf("only %d vectors (%v)", len(dirs), err)
	}
	for _, f := range dirs {
		dir := filepath.Dir(f)
		want, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		args := []string{dir}
		if cp := filepath.Join(dir, "checkpoint"); exists(cp) {
			args = append(args, cp)
		}
		if got := second(args...); got != string(want) {
			t.Errorf("%s: %swant %s", filepath.Base(dir), got, want)
		}
	}
	src := filepath.Join(vectorsDir, "new-recipients")
	pub := readPub(t, src)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range long(100) {
		m := fstest.MapFS{}
		names, _ := filepath.Glob(filepath.Join(src, "*.seg"))
		for _, p := range names {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			m[filepath.Base(p)] = &fstest.MapFile{Data: b}
		}
		what := damage(r, m)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, pubFile), pub, 0o600); err != nil {
			t.Fatal(err)
		}
		for n, f := range m {
			if err := os.WriteFile(filepath.Join(dir, n), f.Data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want := verdictLine(verify(t, m, pub, VerifyOptions{AllSignatures: true}))
		if got := second(dir); got != want {
			t.Errorf("%d, %s:\n%s%s", i, what, got, want)
		}
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// damage does one thing to one segment.
func damage(r *rand.Rand, m fstest.MapFS) string {
	n := segmentName(uint64(1 + r.IntN(len(m))))
	d := m[n].Data
	if len(d) == 0 {
		return "nothing"
	}
	i := r.IntN(len(d))
	switch r.IntN(5) {
	case 0:
		d[i] ^= 1 << r.IntN(8)
		return fmt.Sprintf("byte %d of %s flipped", i, n)
	case 1:
		m[n].Data = d[:i]
		return fmt.Sprintf("%s cut to %d", n, i)
	case 2:
		clear(d[i:])
		return fmt.Sprintf("%s zeros from %d", n, i)
	case 3:
		m[n].Data = append(d, d[i:]...)
		return fmt.Sprintf("%s longer by its bytes from %d", n, i)
	default:
		l := pieces(d)
		j := r.IntN(len(l))
		m[n].Data = join(append(append([]piece(nil), l[:j]...), l[j+1:]...))
		return fmt.Sprintf("%s without its frame %d", n, j)
	}
}
