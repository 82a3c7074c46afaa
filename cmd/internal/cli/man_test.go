package cli

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// The generator of man pages would bring a Markdown renderer into sp, so it is linked into this test alone:
//
//	go test ./cmd/internal/cli -run '^TestManPages$' -args -man DIR
var manDir = flag.String("man", "", "write sp's man pages into `DIR`")

// asWritten keeps the lines of --help as they are: the generator reads Markdown, in which ** of a rule means something.
func asWritten(cmd *cobra.Command) {
	if cmd.Long != "" {
		cmd.Long = "    " + strings.ReplaceAll(cmd.Long, "\n", "\n    ")
	}
	for _, c := range cmd.Commands() {
		asWritten(c)
	}
}

// TestManPages: each command has a page, made from what --help says.
func TestManPages(t *testing.T) {
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	root := (&app{env: system()}).root()
	root.DisableAutoGenTag = true
	asWritten(root)
	day := time.Unix(0, 0).UTC() // a page of the same text is the same file
	header := &doc.GenManHeader{Section: "1", Source: "Sallyport", Manual: "Sallyport", Date: &day}
	if err := doc.GenManTreeFromOpts(root, doc.GenManTreeOptions{Header: header, Path: dir, CommandSeparator: "-"}); err != nil {
		t.Fatal(err)
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "help" {
			return
		}
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		for _, word := range []string{".TH", "SH SYNOPSIS"} {
			if !strings.Contains(string(page), word) {
				t.Errorf("%s: no %s", cmd.CommandPath(), word)
			}
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(root)
	page, err := os.ReadFile(filepath.Join(dir, "sp-secret-add.1"))
	if err != nil || !strings.Contains(string(page), "** the rest") {
		t.Errorf("what a rule is does not stand there as in --help: %v\n%s", err, page)
	}
}
