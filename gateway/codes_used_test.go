package gateway_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sallyport/gateway/api"
	"sallyport/httpexec"
	"sallyport/sshexec"
)

// TestOutcomesAreCodes: an outcome that is no success is a code of its own name with exit 1.
// "denied" alone is told by the code of whatever denied.
func TestOutcomesAreCodes(t *testing.T) {
	success := map[string]bool{"confirmed": true, "accepted": true, "redirect_not_followed": true, "denied": true}
	words := map[string]bool{}
	for i := range 32 { // more than either has: the rest says sent_unconfirmed
		words[httpexec.Outcome(i).String()] = true
		words[sshexec.Outcome(i).String()] = true
	}
	for _, must := range []string{"confirmed", "denied", "not_sent", "sent_unconfirmed", "failed_remote"} {
		if !words[must] {
			t.Errorf("no executor says %s any more", must)
		}
	}
	for w := range words {
		if c := api.Lookup(w); !success[w] && (c.Name != w || c.Exit != 1) {
			t.Errorf("outcome %s has the row %+v", w, c)
		}
	}
}

// TestRefusalsHaveRows: each code written in the source as api.Fail("…") has its row; Lookup would tell it as internal.
func TestRefusalsHaveRows(t *testing.T) {
	calls := 0
	for _, dir := range []string{"gateway", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			for code := range failCodes(f) {
				calls++
				if api.Lookup(code).Name != code {
					t.Errorf("%s fails with %q, which api.Codes does not have", path, code)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if calls < 20 {
		t.Errorf("%d codes found in the source: the search misses them", calls)
	}
	planted, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x; var e = api.Fail("no_such_code", "")`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !failCodes(planted)["no_such_code"] {
		t.Error("a planted code is not seen")
	}
}

// failCodes are the literal first arguments of api.Fail in a file.
func failCodes(f *ast.File) map[string]bool {
	found := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		fun, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || fun.Sel.Name != "Fail" {
			return true
		}
		if lit, ok := call.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				found[s] = true
			}
		}
		return true
	})
	return found
}
