package gateway

import (
	"os"
	"strings"
	"testing"
)

// The executors are leaves and may not import each other, so each has the lists of addresses that it refuses. They are
// one text.
func TestExecutorsRefuseTheSameAddresses(t *testing.T) {
	lists := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, from, ok := strings.Cut(string(b), "\nvar special = ")
		if !ok {
			t.Fatalf("%s: no list of special networks", path)
		}
		head, never, ok := strings.Cut(from, "\nfunc never(")
		if !ok {
			t.Fatalf("%s: nothing that is refused always", path)
		}
		never, _, _ = strings.Cut(never, "\n}\n")
		return head + never
	}
	if a, b := lists("../httpexec/addr.go"), lists("../sshexec/address.go"); a != b {
		t.Errorf("httpexec:\n%s\nsshexec:\n%s", a, b)
	}
}
