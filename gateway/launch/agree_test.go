package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// Plan and Observe disagree about exactly what changed between them.
func TestAgrees(t *testing.T) {
	for what, tc := range map[string]struct {
		change func(w *world)
		want   []string
	}{
		"nothing":           {func(*world) {}, nil},
		"entry":             {func(w *world) { w.write("dist/server.js", "9") }, []string{"entryDigest", "treeDigest"}},
		"lockfile":          {func(w *world) { w.write("package-lock.json", "[]") }, []string{"lockfileDigest", "treeDigest"}},
		"dependency":        {func(w *world) { w.write("node_modules/tool/cli.js", "9") }, []string{"treeDigest"}},
		"runtime":           {func(w *world) { w.exe("../bin/node", "node.js/v22.14.0\x00") }, []string{"exeDigest", "runtime"}},
		"lockfile gone":     {func(w *world) { os.Remove(w.dir + "/package-lock.json") }, []string{"lockfile", "lockfileDigest", "treeDigest", "files yarn.lock"}},
		"variable":          {func(w *world) { w.env[1] = "HOME=/elsewhere" }, []string{"environment HOME"}},
		"variable more":     {func(w *world) { w.env = append(w.env, "A=b") }, []string{"environment A"}},
		"variable less":     {func(w *world) { w.env = w.env[:1] }, []string{"environment HOME"}},
		"preload":           {func(w *world) { w.env = append(w.env, "NODE_OPTIONS=-r ./dist/pre.js") }, []string{"files dist/pre.js", "environment NODE_OPTIONS"}},
		"entry by its link": {func(w *world) { w.write("dist/index.js", "9") }, []string{"treeDigest"}},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, project())
			m := &Measurer{Key: []byte("key")}
			argv := []string{"node", "dist/server.js"}
			a, err := m.Plan(argv, w.dir, w.env)
			if err != nil {
				t.Fatal(err)
			}
			tc.change(w)
			b, err := m.Plan(argv, w.dir, w.env)
			if err != nil {
				t.Fatal(err)
			}
			if got := a.Agrees(b); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// What a plan pinned and nobody can see any more is a difference; what it never
// pinned is none; behind a launcher variables may come, but none that loads code.
func TestAgreesUnpinned(t *testing.T) {
	w := newWorld(t, project())
	a := w.plan("node", "dist/server.js")
	b := a
	b.Code.TreeDigest = Unpinned
	if got := a.Agrees(b); !slices.Equal(got, []string{"treeDigest"}) {
		t.Errorf("pinned, then not: %q", got)
	}
	if got := b.Agrees(a); got != nil {
		t.Errorf("not pinned, then pinned: %q", got)
	}
	b = a
	b.WorkingDirectory, b.Code.Entry = "/", ""
	if got := a.Agrees(b); !slices.Equal(got, []string{"workingDirectory", "entry"}) {
		t.Errorf("elsewhere: %q", got)
	}
	late := w.plan("npx", "unknown")
	b = a
	b.Environment = append(slices.Clone(b.Environment), Variable{Name: "npm_x"}, Variable{Name: "PWD"})
	if got := late.Agrees(b); got != nil {
		t.Errorf("deferred: %q", got)
	}
	b.Environment = append(b.Environment, Variable{Name: "LD_PRELOAD"}, Variable{Name: "NODE_OPTIONS"})
	if got := late.Agrees(b); !slices.Equal(got, []string{"environment LD_PRELOAD", "environment NODE_OPTIONS"}) {
		t.Errorf("loaders behind a launcher: %q", got)
	}
	late.Launchers = []Artifact{{"/bin/npx", "sha256:1"}}
	b = a
	b.Launchers = []Artifact{{"/bin/npx", "sha256:2"}, {"/bin/sh", "sha256:3"}}
	if got := late.Agrees(b); !slices.Equal(got, []string{"launchers /bin/npx"}) {
		t.Errorf("a launcher that rewrote itself: %q", got)
	}
}

func TestChanged(t *testing.T) {
	w := newWorld(t, project())
	w.exe("../bin/npm", nodeLine)
	r := w.plan("node", "dist/server.js")
	check := func(what string, r Record, want ...string) {
		t.Helper()
		got, err := r.Changed()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	check("nothing", r)
	w.write("dist/server.js", "1")
	check("the same bytes again", r)
	w.write("dist/server.js", "9")
	w.write("node_modules/new/index.js", "9")
	w.write("server.log", "9")
	if err := os.Remove(w.dir + "/dist/pre.js"); err != nil {
		t.Fatal(err)
	}
	w.exe("../bin/node", "new")
	check("four", r, filepath.Dir(w.dir)+"/bin/node", "dist/pre.js", "dist/server.js", "node_modules/new/index.js")

	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Record
	if err := json.Unmarshal(b, &back, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	check("what it names, after a trip through JSON", back, filepath.Dir(w.dir)+"/bin/node", "dist/server.js")
	if got := back.Agrees(r); got != nil {
		t.Errorf("the trip changed %q", got)
	}
	check("the zero value", Record{})
}

// The article's names are the record's.
func TestRecordJSON(t *testing.T) {
	w := newWorld(t, project())
	w.exe("../bin/node", "\x7fELF node.js/v22.14.0\x00")
	r, err := (&Measurer{Key: []byte("key")}).Plan([]string{"node", "dist/server.js"}, w.dir, append(w.env, "TOKEN=hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	r.ServerLabel, r.ProcessID = "inventory-local", 48192
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"serverLabel", "launchCommand", "workingDirectory", "processId", "exe", "exeDigest", "entry", "entryDigest",
		"lockfile", "lockfileDigest", "treeDigest", "runtime", "environment", "launchers", "unpinned"} {
		if _, ok := m[k]; !ok {
			t.Errorf("no %s in %s", k, b)
		}
	}
	if m["runtime"] != "node 22.14.0" {
		t.Errorf("runtime %v", m["runtime"])
	}
	if strings.Contains(string(b), "hunter2") || !strings.Contains(string(b), `{"name":"TOKEN","hash":"hmac-sha256:`) {
		t.Errorf("environment: %s", b)
	}
}

func TestSums(t *testing.T) {
	w := newWorld(t, project())
	r := w.plan("node", "dist/server.js")
	x := exec.Command("sha256sum", "--strict", "-c")
	x.Dir, x.Stdin = w.dir, strings.NewReader(r.Sums())
	if _, err := exec.LookPath("sha256sum"); err != nil {
		t.Skip("sha256sum: ", err)
	}
	if out, err := x.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	lines := strings.Split(r.Sums(), "\n")
	if len(lines) < 4 || !strings.HasSuffix(lines[0], "  dist/server.js") || !strings.HasSuffix(lines[1], "  package-lock.json") {
		t.Errorf("sums:\n%s", r.Sums())
	}
}

// Equal values of two variables don't show, nor do values under two keys.
func TestEnvironmentHashes(t *testing.T) {
	env := []string{"A=x", "B=x", "C="}
	a, b := (&Measurer{Key: []byte("1")}).environment(env), (&Measurer{Key: []byte("2")}).environment(env)
	seen := make(map[string]bool)
	for _, v := range append(a, b...) {
		if v.Hash == "" || seen[v.Hash] {
			t.Errorf("%s: %q", v.Name, v.Hash)
		}
		seen[v.Hash] = true
	}
	for _, v := range new(Measurer).environment(env) {
		if v.Hash != "" {
			t.Errorf("%s has a hash without a key", v.Name)
		}
	}
}
