package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func (w *world) tree(key []byte, dirs ...string) (sum string, t *tree, err error) {
	w.t.Helper()
	for i := range dirs {
		dirs[i] = filepath.Join(w.dir, dirs[i])
	}
	t = &tree{cache: new(cache), key: key, deadline: time.Now().Add(time.Minute)}
	if err = t.walk(dirs); err != nil {
		return "", t, err
	}
	sum, _ = t.digest(w.dir)
	return sum, t, nil
}

func treeFiles() map[string]string {
	return map[string]string{
		"src/a.js": "1", "src/b/c.js": "2", "src/.git/HEAD": "x", "src/__pycache__/m.pyc": "x", "src/server.log": "x", "src/data.db-wal": "x",
		"src/.env": "TOKEN=s", "node_modules/.pnpm/d@1/node_modules/d/i.js": "3", "node_modules/d": "-> .pnpm/d@1/node_modules/d",
		"node_modules/me": "-> ../packages/me", "packages/me/i.js": "4", "node_modules/loop": "-> ../node_modules", "src/self": "-> self",
		"src/lost": "-> nowhere", "src/a2.js": "-> a.js",
	}
}

// The digest is what anybody gets from the files with shasum.
func TestTreeDigestIsShasum(t *testing.T) {
	w := newWorld(t, treeFiles())
	for _, l := range []string{"src/self", "src/lost", "src/a2.js"} {
		if err := os.Remove(filepath.Join(w.dir, l)); err != nil {
			t.Fatal(err)
		}
	}
	got, tr, err := w.tree(nil, "src")
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.files) != 2 {
		t.Errorf("%d files: %v", len(tr.files), tr.files)
	}
	x := exec.Command("sh", "-c", `sha256sum src/a.js src/b/c.js | sha256sum`)
	x.Dir = w.dir
	out, err := x.Output()
	if err != nil {
		t.Skip("sha256sum: ", err)
	}
	if want := "sha256:" + string(out[:64]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTreeNotices(t *testing.T) {
	w := newWorld(t, treeFiles())
	roots := []string{"src", "node_modules"}
	digest := func() string {
		t.Helper()
		sum, _, err := w.tree([]byte("key"), slices.Clone(roots)...)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	last := digest()
	if again := digest(); again != last {
		t.Fatal("two walks differ")
	}
	slices.Reverse(roots)
	if again := digest(); again != last {
		t.Error("the order of the folders makes a difference")
	}
	for _, change := range []struct {
		what string
		do   func()
		same bool
	}{
		{"a byte", func() { w.write("src/a.js", "9") }, false},
		{"a file deep below", func() { w.write("src/b/n.js", "") }, false},
		{"a package's file", func() { w.write("node_modules/.pnpm/d@1/node_modules/d/i.js", "9") }, false},
		{"a workspace package behind a link", func() { w.write("packages/me/i.js", "9") }, false},
		{"a link's target", func() { os.Remove(w.dir + "/node_modules/d"); w.link("node_modules/d", "../packages/me") }, false},
		{"a secret", func() { w.write("src/.env", "TOKEN=t") }, false},
		{"a file gone", func() { os.Remove(w.dir + "/src/b/c.js") }, false},
		{"a log", func() { w.write("src/server.log", "more") }, true},
		{"version control", func() { w.write("src/.git/HEAD", "y") }, true},
		{"compiled python", func() { w.write("src/__pycache__/m.pyc", "y") }, true},
		{"a new pipe", func() { unix.Mkfifo(w.dir+"/src/pipe", 0o644) }, true},
		{"a moment", func() { os.Chtimes(w.dir+"/src/a.js", time.Time{}, time.Now()) }, true},
	} {
		change.do()
		now := digest()
		if (now == last) != change.same {
			t.Errorf("%s: same %v", change.what, now == last)
		}
		last = now
	}
}

// A secret's bare digest is nowhere: without a key it is left out.
func TestTreeSecrets(t *testing.T) {
	w := newWorld(t, treeFiles())
	_, without, err := w.tree(nil, "src")
	if err != nil {
		t.Fatal(err)
	}
	_, with, err := w.tree([]byte("key"), "src")
	if err != nil {
		t.Fatal(err)
	}
	bare, _, err := new(cache).digest(w.dir+"/src/.env", time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := without.files[w.dir+"/src/.env"]; ok {
		t.Error("hashed without a key")
	}
	if m := with.files[w.dir+"/src/.env"]; m.digest == "" || m.digest == bare {
		t.Errorf("digest %q, bare %q", m.digest, bare)
	}
}

func TestTreeLimits(t *testing.T) {
	w := newWorld(t, nil)
	deep := "d" + strings.Repeat("/d", depthMax+2)
	w.write("deep/"+deep+"/x", "")
	if _, _, err := w.tree(nil, "deep"); err == nil || !strings.Contains(err.Error(), "deeper") {
		t.Errorf("deep: %v", err)
	}
	w.write("many/x", "")
	for i := range filesMax + 1 {
		if err := os.Symlink("x", fmt.Sprintf("%s/many/%d", w.dir, i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := w.tree(nil, "many"); !errors.Is(err, errFiles) {
		t.Errorf("many: %v", err)
	}
	w.write("huge/x", "")
	if err := os.Truncate(w.dir+"/huge/x", fileMax); err != nil { // sparse
		t.Fatal(err)
	}
	late := &tree{cache: new(cache), deadline: time.Now()}
	if err := late.walk([]string{w.dir + "/huge"}); !errors.Is(err, errTime) {
		t.Errorf("huge, no time: %v", err)
	}
	if err := os.Truncate(w.dir+"/huge/x", fileMax+1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.tree(nil, "huge"); !errors.Is(err, errTooLarge) {
		t.Errorf("too large: %v", err)
	}
	w.write("package.json", "{}")
	w.write("s.js", "")
	if r := w.plan("node", "s.js"); r.Code.TreeDigest != Unpinned || !strings.Contains(strings.Join(r.Unpinned, ";"), "tree: ") {
		t.Errorf("over its budget: %q, %q", r.Code.TreeDigest, r.Unpinned)
	}
}

func TestTreeUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("permissions: root reads everything")
	}
	w := newWorld(t, map[string]string{"package.json": "{}", "s.js": "1", "secret.js": "2", "d/x.js": "3"})
	if err := errors.Join(os.Chmod(w.dir+"/secret.js", 0), os.Chmod(w.dir+"/d", 0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(w.dir+"/d", 0o755) })
	r := w.plan("node", "s.js")
	if !strings.HasPrefix(r.Code.TreeDigest, "sha256:") || !slices.Contains(r.Unpinned, "tree: 2 files or folders can't be read") {
		t.Errorf("%q, %q", r.Code.TreeDigest, r.Unpinned)
	}
}

// A script in a folder of many programs has no tree of its own.
func TestTreeOfMany(t *testing.T) {
	w := newWorld(t, map[string]string{"../home/s.js": "1", "../home/.npm/x": "1"})
	if r := w.plan("node", "../home/s.js"); r.Code.TreeDigest != Unpinned || len(r.Unpinned) == 0 {
		t.Errorf("%q, %q", r.Code.TreeDigest, r.Unpinned)
	}
	if r := w.plan("server"); r.Code.TreeDigest != "" || len(r.Unpinned) != 0 {
		t.Errorf("a compiled program has the tree %q, %q", r.Code.TreeDigest, r.Unpinned)
	}
}

// A file that changes while it is read has no digest.
func TestDigestChanging(t *testing.T) {
	w := newWorld(t, map[string]string{"f": strings.Repeat("x", 1<<20)})
	f, err := os.OpenFile(w.dir+"/f", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := &meddler{f: f}
	if d, _, err := sum(w.dir+"/f", h, time.Now().Add(time.Minute)); !errors.Is(err, errChanging) {
		t.Errorf("%q, %v", d, err)
	}
	h.shrink = true
	if d, _, err := sum(w.dir+"/f", h, time.Now().Add(time.Minute)); !errors.Is(err, errChanging) {
		t.Errorf("shrinking: %q, %v", d, err)
	}
}

// meddler is a hash that changes the file it is fed.
type meddler struct {
	bytes.Buffer
	f      *os.File
	shrink bool
}

func (m *meddler) Write(p []byte) (int, error) {
	if m.shrink {
		m.f.Truncate(8)
	} else {
		m.f.WriteAt([]byte("changed"), 0)
	}
	return len(p), nil
}
func (m *meddler) Sum(b []byte) []byte { return b }
func (m *meddler) Size() int           { return 0 }
func (m *meddler) BlockSize() int      { return 1 }

// A young stamp is not believed: a later change may hide under it.
func TestCacheSettles(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "1"})
	var c cache
	end := time.Now().Add(time.Minute)
	_, s, err := c.digest(w.dir+"/f", end)
	if err != nil {
		t.Fatal(err)
	}
	if c.get(s) != "" {
		t.Error("a digest of a file that was just written is remembered")
	}
	if s.old(time.Unix(0, s.ctime).Add(settled)) || !s.old(time.Unix(0, s.ctime).Add(settled+1)) {
		t.Error("the moment of settling")
	}
	for i := range cacheMax + 10 {
		c.put(stamp{ino: uint64(i)}, "x")
	}
	if len(c.m) > cacheMax {
		t.Errorf("%d remembered", len(c.m))
	}
}

func BenchmarkTree(b *testing.B) {
	w := newWorld(b, map[string]string{"package.json": "{}", "s.js": "1"})
	for i := range 2000 {
		w.write(fmt.Sprintf("node_modules/p%d/i.js", i), strings.Repeat("x", 1000))
	}
	for made := time.Now(); time.Since(made) < 2*settled; { // younger files are not remembered
		time.Sleep(settled / 4)
	}
	for _, warm := range []bool{false, true} {
		b.Run(map[bool]string{false: "cold", true: "warm"}[warm], func(b *testing.B) {
			c, files := new(cache), 0
			for b.Loop() {
				if !warm {
					c = new(cache)
				}
				t := &tree{cache: c, deadline: time.Now().Add(time.Minute)}
				if err := t.walk([]string{w.dir}); err != nil {
					b.Fatal(err)
				}
				files = len(t.files)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/1000/float64(b.N*files), "µs/file")
		})
	}
}
