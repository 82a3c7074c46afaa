package gateway_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAcceptanceCommands: a command in docs/acceptance.md or docs/threat-model.md that runs nothing would show nothing. Each -run names tests
// that are in the package it is given; below TestScripts, a script.
func TestAcceptanceCommands(t *testing.T) {
	var doc []byte
	for _, name := range []string{"acceptance.md", "threat-model.md"} {
		b, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		doc = append(doc, b...)
	}
	commands := regexp.MustCompile("go test (\\./[a-z/]*[a-z])(?: -run ('[^']+'|[^ `']+))?").FindAllStringSubmatch(string(doc), -1)
	if len(commands) < 10 {
		t.Fatalf("%d commands found", len(commands))
	}
	for _, c := range commands {
		tests := testsIn(t, c[1])
		if len(tests) == 0 {
			t.Errorf("%s: no tests in %s", c[0], c[1])
		}
		if c[2] == "" || c[2] == "'^$'" { // all of them, or a benchmark
			continue
		}
		for name := range strings.SplitSeq(strings.ReplaceAll(strings.Trim(c[2], "'"), `\|`, "|"), "|") {
			if name == "^$" {
				continue // benchmarks alone
			}
			top, script, below := strings.Cut(name, "/")
			if !regexp.MustCompile(`(?m)^Test\w*` + strings.TrimPrefix(top, "Test")).MatchString(tests) {
				t.Errorf("%s: no test matches %s", c[0], top)
			}
			if below {
				folder := "script"
				if strings.HasPrefix(top, "TestIdentity") {
					folder = "identity"
				}
				if _, err := os.Stat(filepath.Join(root, c[1], "testdata", folder, script+".txtar")); err != nil {
					t.Errorf("%s: %v", c[0], err)
				}
			}
		}
	}
}

// testsIn lists the names of a folder's tests, one a line.
func testsIn(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(b), -1) {
			names.WriteString(m[1] + "\n")
		}
	}
	return names.String()
}

// TestLinks: what the documents point to inside the repository is there.
func TestLinks(t *testing.T) {
	files := []string{"README.md"}
	for _, dir := range []string{"docs", "docs/decisions", ".github"} {
		found, err := filepath.Glob(filepath.Join(root, dir, "*.md"))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d documents, %v", dir, len(found), err)
		}
		for _, f := range found {
			rel, err := filepath.Rel(root, f)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, rel)
		}
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(root, f))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(b), -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(f), m[1])); err != nil {
				t.Errorf("%s points to %s: %v", f, m[1], err)
			}
		}
	}
}
