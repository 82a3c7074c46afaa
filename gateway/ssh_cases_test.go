package gateway

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each line of the table of hostile SSH cases has a test that names it.
func TestEverySSHCase(t *testing.T) {
	table, err := os.ReadFile(filepath.Join("..", "sshexec", "testdata", "ssh.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, pattern := range []string{"../sshexec/*_test.go", "ssh*_test.go", "entry_test.go"} {
		files, _ := filepath.Glob(pattern)
		for _, f := range files {
			if f == "ssh_cases_test.go" {
				continue
			}
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			tests.Write(b)
		}
	}
	ids := regexp.MustCompile(`(?m)^S\d\d`).FindAllString(string(table), -1)
	if len(ids) < 21 {
		t.Fatalf("%d cases", len(ids))
	}
	for _, id := range ids {
		if !regexp.MustCompile(`\b` + id + `\b`).MatchString(tests.String()) {
			t.Errorf("no test names %s", id)
		}
	}
}
