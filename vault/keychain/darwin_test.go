package keychain_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// listed is a package as `go list` sees it for macOS with cgo.
type listed struct {
	ImportPath, Dir   string
	GoFiles, CgoFiles []string
	ImportMap         map[string]string
}

// TestDarwinTypes checks the types of the macOS file where no macOS is: package
// C is taken for granted, everything else is read from its source.
func TestDarwinTypes(t *testing.T) {
	check := func(spoil func(string) string) error {
		pkgs := map[string]*types.Package{"unsafe": types.Unsafe}
		files := token.NewFileSet()
		for _, p := range darwin(t) {
			if p.ImportPath == "unsafe" {
				continue
			}
			ours := strings.HasPrefix(p.ImportPath, "sallyport/")
			var parsed []*ast.File
			for _, name := range append(p.GoFiles, p.CgoFiles...) {
				src, err := os.ReadFile(filepath.Join(p.Dir, name))
				if err != nil {
					return err
				}
				if ours {
					src = []byte(spoil(string(src)))
				}
				f, err := parser.ParseFile(files, name, src, parser.SkipObjectResolution)
				if err != nil {
					return err
				}
				parsed = append(parsed, f)
			}
			var faults []error
			c := types.Config{FakeImportC: true, IgnoreFuncBodies: !ours, Sizes: types.SizesFor("gc", "arm64"),
				Importer: imported{pkgs, p.ImportMap}, Error: func(err error) { faults = append(faults, err) }}
			got, _ := c.Check(p.ImportPath, files, parsed, nil)
			if ours && len(faults) > 0 {
				return errors.Join(faults...)
			}
			pkgs[p.ImportPath] = got
		}
		return nil
	}
	if err := check(func(s string) string { return s }); err != nil {
		t.Error(err)
	}
	spoil := func(s string) string {
		return strings.Replace(s, "keychain.DeleteItem(item(service, account))", "keychain.DeleteItem(service)", 1)
	}
	if err := check(spoil); err == nil || !strings.Contains(err.Error(), "DeleteItem") {
		t.Errorf("a wrong argument is not seen: %v", err)
	}
}

func darwin(t *testing.T) (out []listed) {
	t.Helper()
	c := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,CgoFiles,ImportMap", ".")
	c.Env = append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=1")
	b, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for d := jsontext.NewDecoder(b); ; {
		var p listed
		if err := json.UnmarshalDecode(d, &p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	seen := false
	for _, p := range out {
		seen = seen || p.ImportPath == "sallyport/vault/keychain" && strings.Contains(strings.Join(p.GoFiles, " "), "keychain_darwin.go")
	}
	if !seen {
		t.Fatal("the macOS file is not built for macOS")
	}
	return out
}

// imported are the packages checked so far.
type imported struct {
	pkgs map[string]*types.Package
	as   map[string]string
}

func (i imported) Import(path string) (*types.Package, error) {
	if p, ok := i.as[path]; ok {
		path = p
	}
	if p := i.pkgs[path]; p != nil {
		return p, nil
	}
	return nil, errors.New("not checked yet: " + path)
}
