package gateway_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// root is the module's folder, seen from a test of this package.
const root = ".."

// TestArrows holds every package to its row, on this system and as another would build it without cgo.
func TestArrows(t *testing.T) {
	for _, build := range [][]string{{}, {"GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0"}, {"GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1"}} {
		name := "here"
		if len(build) > 0 {
			name = strings.Join(build, " ")
		}
		t.Run(name, func(t *testing.T) {
			all := list(t, build)
			for _, r := range rules() {
				for _, b := range r.broken(all) {
					t.Errorf("%s\n  but %s\n  why: %s", r.name, b, r.why)
				}
			}
		})
	}
}

// TestArrowsAreSeen plants one violation of each rule in the real list: a rule that cannot fail holds nothing.
func TestArrowsAreSeen(t *testing.T) {
	all := list(t, nil)
	for _, r := range rules() {
		if r.why == "" {
			t.Errorf("%s: no reason", r.name)
		}
		if found := r.broken(append(slices.Clone(all), r.plant)); len(found) == 0 {
			t.Errorf("%s: a planted violation by %s is not seen", r.name, r.plant.ImportPath)
		}
	}
}

// TestArrowsOfTests: what tests import is held to the same rows, apart from the extras a row names.
func TestArrowsOfTests(t *testing.T) {
	for _, c := range []struct {
		p   pkg
		bad bool
	}{
		{pkg{ImportPath: ours("vault"), TestImports: []string{ours("gateway/store")}}, true},
		{pkg{ImportPath: ours("sshexec"), XTestImports: []string{ours("sshexec/sshtest")}}, false},
		{pkg{ImportPath: ours("gateway"), TestImports: []string{"filippo.io/age"}}, true},
		{pkg{ImportPath: ours("gateway/store"), XTestImports: []string{"filippo.io/age"}}, false},
		{pkg{ImportPath: ours("gateway"), XTestImports: []string{"golang.org/x/crypto/ssh"}}, true},
	} {
		var found []string
		for _, r := range rules() {
			found = append(found, r.broken([]pkg{c.p})...)
		}
		if (len(found) > 0) != c.bad {
			t.Errorf("%+v: found %q, want a breach: %v", c.p, found, c.bad)
		}
	}
}

// TestEveryRowIsReal: a row of a package that is not here must be one that the architecture has a place for.
func TestEveryRowIsReal(t *testing.T) {
	later := strings.Fields("gateway/console gateway/notify gateway/remote")
	all := list(t, nil)
	for name := range arrows {
		here := slices.ContainsFunc(all, func(p pkg) bool { return p.ImportPath == ours(name) })
		if !here && !slices.Contains(later, name) {
			t.Errorf("%s has a row and is not in the tree", name)
		}
		for _, dep := range strings.Fields(arrows[name].may) {
			if _, ok := arrows[dep]; !ok {
				t.Errorf("%s may import %s, which has no row", name, dep)
			}
		}
	}
}

// topLevel are the folders and files of the root, and nothing else: no pkg, no util, no place for what has no place.
const topLevel = "auditlog authz cmd gateway httpexec migrations sshexec vault .ci .github docs LICENSE README.md .gitignore go.mod go.sum .git"

func TestTopLevel(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	ignore, err := os.ReadFile(filepath.Join(root, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if bad := strangers(names, strings.Fields(string(ignore))); len(bad) > 0 {
		t.Errorf("the root holds %q; its folders are fixed", bad)
	}
	if bad := strangers([]string{"vault", "pkg", "sp", "x.test"}, []string{"/sp", "*.test"}); !slices.Equal(bad, []string{"pkg"}) {
		t.Errorf("planted pkg: found %q", bad)
	}
}

// strangers is pure: the names that have no place in the root and aren't ignored build output.
func strangers(names, ignored []string) (bad []string) {
	for _, n := range names {
		output := slices.ContainsFunc(ignored, func(pattern string) bool {
			ok, err := path.Match(strings.TrimPrefix(pattern, "/"), n)
			return ok && err == nil
		})
		if !output && !has(topLevel, n) {
			bad = append(bad, n)
		}
	}
	return bad
}

// list is every package of the module and whatever it needs, as `go list` sees it under the given settings.
func list(t *testing.T, build []string) (all []pkg) {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports,TestImports,XTestImports,CgoFiles", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), build...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	d := jsontext.NewDecoder(bytes.NewReader(out))
	for {
		var p pkg
		if err := json.UnmarshalDecode(d, &p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 50 {
		t.Fatalf("go list names %d packages only", len(all))
	}
	return all
}
