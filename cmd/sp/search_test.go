package main_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/testscript"
)

// form is one way in which a secret could stand somewhere. Those with fold match in upper and lower case.
type form struct {
	name, text string
	fold       bool
}

// forms are the ways that a search looks for.
func forms(secret string) []form {
	quoted, err := jsontext.AppendQuote(nil, secret)
	if err != nil {
		panic(err)
	}
	f := []form{
		{"raw", secret, false},
		{"hex", hex.EncodeToString([]byte(secret)), true},
		{"percent, every byte", each(secret, "%%%02x"), true},
		{"percent, query", url.QueryEscape(secret), true},
		{"percent, path", url.PathEscape(secret), true},
		{"JSON string", string(quoted[1 : len(quoted)-1]), false},
		{"JSON, every byte", each(secret, `\u%04x`), true},
		{"JSON, slashes too", strings.ReplaceAll(string(quoted[1:len(quoted)-1]), "/", `\/`), false},
	}
	for name, enc := range map[string]*base64.Encoding{"standard": base64.RawStdEncoding, "url": base64.RawURLEncoding} {
		for shift := range 3 {
			// Of the text in the middle of something else, only the characters that its neighbours don't touch.
			text := enc.EncodeToString(append(make([]byte, shift), secret...))
			from, upto := (shift*8+5)/6, (shift+len(secret))*8/6
			f = append(f, form{fmt.Sprintf("base64 %s, shifted by %d", name, shift), text[from:upto], false})
		}
	}
	return f
}

func each(s, format string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

// found names the forms of secret that are in b.
func found(b []byte, secret string) (names []string) {
	low := bytes.ToLower(b)
	for _, f := range forms(secret) {
		if in, text := b, f.text; f.fold && bytes.Contains(low, []byte(strings.ToLower(text))) || !f.fold && bytes.Contains(in, []byte(text)) {
			names = append(names, f.name)
		}
	}
	return names
}

// cmdSearch looks for the bytes in args[0] in files and folders. With ! none may have any form of them; then it plants
// each form in a copy of each file and must find it there: a search that can't find proves nothing.
func cmdSearch(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] search SECRET FILE…")
	}
	secret := strings.TrimSuffix(ts.ReadFile(args[0]), "\n")
	if len(secret) < 8 {
		ts.Fatalf("a secret of %d bytes is found anywhere", len(secret))
	}
	files, hits := 0, 0
	look := func(path string, b []byte) {
		files++
		names := found(b, secret)
		hits += len(names)
		if neg && len(names) > 0 {
			ts.Fatalf("%s holds %s: %q", path, args[0], names)
		}
		if !neg {
			return
		}
		for _, f := range forms(secret) {
			planted := bytes.Join([][]byte{b[:len(b)/2], []byte(f.text), b[len(b)/2:]}, nil)
			if len(found(planted, secret)) == 0 {
				ts.Fatalf("%s: %s planted, not found", path, f.name)
			}
		}
	}
	for _, arg := range args[1:] {
		if arg == "stdout" || arg == "stderr" {
			look(arg, []byte(ts.ReadFile(arg)))
			continue
		}
		err := filepath.WalkDir(ts.MkAbs(arg), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			if err == nil {
				look(path, b)
			}
			return err
		})
		ts.Check(err)
	}
	if files == 0 {
		ts.Fatalf("nothing to search in")
	}
	if !neg && hits == 0 {
		ts.Fatalf("%s not found in %d files", args[0], files)
	}
	ts.Logf("%d files searched, %d hits", files, hits)
}

// TestSearchFinds: every form is found where it was planted, and nothing in what only looks like it.
func TestSearchFinds(t *testing.T) {
	const secret = `tk"9\f/Zq+71%c~Bearer~e5d2`
	seen := map[string]bool{}
	for _, f := range forms(secret) {
		seen[f.text] = true
		for _, text := range []string{f.text, "x" + f.text + "y"} {
			if len(found([]byte(text), secret)) == 0 {
				t.Errorf("%s is not found in %q", f.name, text)
			}
		}
		if f.fold && len(found([]byte(strings.ToUpper(f.text)), secret)) == 0 {
			t.Errorf("%s is not found in upper case", f.name)
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d forms differ: choose a secret that has what is escaped", len(seen))
	}
	for shift := range 6 {
		in := strings.Repeat("p", shift) + secret + strings.Repeat("q", 5-shift)
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			if len(found([]byte(enc.EncodeToString([]byte(in))), secret)) == 0 {
				t.Errorf("base64 at %d is not found", shift)
			}
		}
	}
	if names := found([]byte(secret[1:]+hex.EncodeToString([]byte(secret[:8]))), secret); len(names) > 0 {
		t.Errorf("found %q in a part of it", names)
	}
}
