package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestDocsCommands: each command that README and docs name is in the command tree, and so is each flag behind it.
func TestDocsCommands(t *testing.T) {
	files, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(files) < 10 {
		t.Fatal(err, files)
	}
	root := (&app{env: system()}).root()
	seen := map[string]bool{}
	for _, file := range append(files, "../../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandsIn(string(text)) {
			cmd, wrong := understand(root, strings.Fields(line))
			if wrong != "" {
				t.Errorf("%s: `sp %s`: %s", filepath.Base(file), line, wrong)
			}
			seen[cmd] = true
		}
	}
	if len(seen) < 40 {
		t.Errorf("only %d commands were found: does it read the documents?", len(seen))
	}
	for bad, want := range map[string]string{"secret ad x": "no command", "secret add --kindd x": "no flag", "frob": "no command", "audit verify, frob": "no command", "completion|frob": "no command"} {
		if _, wrong := understand(root, strings.Fields(bad)); !strings.Contains(wrong, want) {
			t.Errorf("sp %s: %q, want %s", bad, wrong, want)
		}
	}
}

var (
	inBlock  = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```")
	inText   = regexp.MustCompile("`(?:sudo )?sp ([^`]+)`")
	lineOf   = regexp.MustCompile(`^(?:[$#] )?(?:sudo )?sp (.*)$`)
	nameLike = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// commandsIn are what stands behind sp in blocks and in the running text, without comments and what follows a pipe.
func commandsIn(text string) (all []string) {
	for _, b := range inBlock.FindAllStringSubmatch(text, -1) {
		body := strings.ReplaceAll(b[1], "\\\n", " ")
		for l := range strings.Lines(body) {
			if m := lineOf.FindStringSubmatch(strings.TrimSpace(l)); m != nil {
				m[1], _, _ = strings.Cut(m[1], " #")
				m[1], _, _ = strings.Cut(m[1], "   ")
				all = append(all, m[1])
			}
		}
	}
	for _, m := range inText.FindAllStringSubmatch(inBlock.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.ReplaceAll(m[1], "\n", " "))
	}
	return all
}

// understand walks down the tree as far as words go, then looks up the flags: "a|b" and "a, b" are both.
func understand(root *cobra.Command, words []string) (path, wrong string) {
	cmd := root
	for i, w := range words {
		if w == "--" || w == "|" || w == "<" || w == ">" || w == "#" {
			break
		}
		if name, ok := strings.CutPrefix(w, "--"); ok {
			for _, alternative := range strings.Split(name, "|") {
				alternative, _, _ = strings.Cut(strings.TrimPrefix(alternative, "--"), "=")
				alternative = strings.TrimRight(alternative, ",.;:)]…'\"")
				cmd.InitDefaultHelpFlag()
				if alternative != "" && alternative != "version" && cmd.Flags().Lookup(alternative) == nil && cmd.InheritedFlags().Lookup(alternative) == nil {
					return cmd.CommandPath(), "no flag --" + alternative + " at " + cmd.CommandPath()
				}
			}
			continue
		}
		if !cmd.HasSubCommands() || i > 0 && strings.HasPrefix(words[i-1], "-") {
			continue
		}
		list := strings.HasSuffix(w, ",")
		var next *cobra.Command
		for _, alternative := range strings.Split(strings.Trim(w, ",.;:"), "|") {
			if !nameLike.MatchString(alternative) {
				continue
			}
			j := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == alternative })
			if j < 0 {
				return cmd.CommandPath(), "no command " + alternative + " at " + cmd.CommandPath()
			}
			next = cmd.Commands()[j]
		}
		if next != nil && !list {
			cmd = next
		}
	}
	return cmd.CommandPath(), ""
}
