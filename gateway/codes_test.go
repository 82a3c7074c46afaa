package gateway_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sallyport/authz"
	"sallyport/gateway/api"
)

//go:generate go test -count=1 -run ^TestCodesDocument$ . -args -update

var update = flag.Bool("update", false, "write docs/codes.md anew")

// TestReasonsAreCodes: whatever the ladder refuses with has its row of status, exit and advice.
func TestReasonsAreCodes(t *testing.T) {
	known := map[string]bool{}
	for _, c := range api.Codes {
		known[c.Name] = true
	}
	reasons := authz.Reasons()
	if len(reasons) == 0 {
		t.Fatal("the ladder has no reasons")
	}
	for _, r := range reasons {
		if !known[string(r)] {
			t.Errorf("authz refuses with %q, which api.Codes does not have", r)
		}
	}
	if known[string(authz.ReasonGranted)] {
		t.Errorf("%q is no refusal and has a row", authz.ReasonGranted)
	}
}

// TestCodesAreComplete: no row leaves a surface to guess, none appears twice, and none ends a refusal with success.
func TestCodesAreComplete(t *testing.T) {
	name := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	seen := map[string]bool{}
	next := map[string]bool{api.NextRefresh: true, api.NextRestart: true, api.NextAsk: true, api.NextFix: true, api.NextLater: true}
	for _, c := range api.Codes {
		switch {
		case !name.MatchString(c.Name):
			t.Errorf("%q is no code's name", c.Name)
		case seen[c.Name]:
			t.Errorf("%s stands twice", c.Name)
		case c.Status < 400 || c.Status > 599:
			t.Errorf("%s: status %d is no refusal", c.Name, c.Status)
		case c.Exit != 1 && c.Exit != 2 && c.Exit != 4 && c.Exit != 5:
			t.Errorf("%s: exit %d", c.Name, c.Exit)
		case (c.Exit == 4) != strings.HasPrefix(c.Name, "vault_"):
			t.Errorf("%s: exit %d; 4 is the vault's alone", c.Name, c.Exit)
		case !next[c.Next]:
			t.Errorf("%s: next %q", c.Name, c.Next)
		case c.Reason == "" || c.Retry == "":
			t.Errorf("%s: no reason or no advice", c.Name)
		}
		seen[c.Name] = true
	}
	for _, must := range []string{"sent_unconfirmed", "not_sent", "failed_remote"} {
		if !seen[must] {
			t.Errorf("outcome %s is no code", must)
		}
	}
}

// TestCodesDocument: docs/codes.md is what the table says. `go generate ./gateway` writes it.
func TestCodesDocument(t *testing.T) {
	file := filepath.Join(root, "docs", "codes.md")
	want := codesDocument(api.Codes)
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what api.Codes says; run `go generate ./gateway`", file)
	}
}

// codesDocument prints the table for people.
func codesDocument(codes []api.Code) []byte {
	var b bytes.Buffer
	fmt.Fprint(&b, "# Codes\n\n"+
		"Generated from `api.Codes` by `go generate ./gateway`. One table for every surface: the code in an answer's `error`,\n"+
		"the HTTP status on the operators' door, the exit status of `sp`, and what to do (`next`, and in words `retry`).\n\n"+
		"Only `denied` codes (a refusal before anything was dialled) and `not_sent` mean that nothing happened. After\n"+
		"`sent_unconfirmed` and `gateway_restarted` the request may have taken effect: look, do not repeat.\n\n"+
		"`sp` ends with 0 when a call is `confirmed`, `accepted`, `redirect_not_followed` or still `pending`.\n\n"+
		"| code | HTTP | exit | next | means, unless the answer says more | advice |\n"+
		"| --- | --- | --- | --- | --- | --- |\n")
	cell := strings.NewReplacer("|", `\|`, "\n", " ")
	for _, c := range codes {
		fmt.Fprintf(&b, "| `%s` | %d | %d | `%s` | %s | %s |\n", c.Name, c.Status, c.Exit, c.Next, cell.Replace(c.Reason), cell.Replace(c.Retry))
	}
	return b.Bytes()
}
