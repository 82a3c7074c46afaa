package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra/doc"
)

// As sp's man pages: go test ./cmd/spd -run '^TestManPages$' -args -man DIR
var manDir = flag.String("man", "", "write spd's man pages into `DIR`")

func TestManPages(t *testing.T) {
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	root := commands()
	root.DisableAutoGenTag = true
	root.CompletionOptions.DisableDefaultCmd = true
	day := time.Unix(0, 0).UTC()
	header := &doc.GenManHeader{Section: "8", Source: "Sallyport", Manual: "Sallyport", Date: &day}
	if err := doc.GenManTreeFromOpts(root, doc.GenManTreeOptions{Header: header, Path: dir, CommandSeparator: "-"}); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "spd-serve.8"))
	if err != nil || !strings.Contains(string(page), "serve\\-uid") && !strings.Contains(string(page), "serve-uid") {
		t.Errorf("%v\n%s", err, page)
	}
}
