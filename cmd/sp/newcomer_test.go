package main_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sallyport/gateway/console/browser"
)

// TestNewcomer does what the README says, in its order, with the programs as they are shipped and a home of its own: from
// nothing to an http_request of MCP Inspector through a yes in the console. The service alone is another: one on loopback.
func TestNewcomer(t *testing.T) {
	inspector, err := exec.LookPath("mcp-inspector")
	if err != nil {
		if os.Getenv("SALLYPORT_REAL") == "require" {
			t.Fatal(err)
		}
		t.Skip("mcp-inspector: not installed (npm install -g @modelcontextprotocol/inspector@2.12.0)")
	}
	tab := browser.Start(t)
	user, err := os.MkdirTemp("", "new") // t.TempDir is long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(user) })
	n := &newcomer{t: t, bin: build(t), home: user}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+newcomersToken {
			w.WriteHeader(http.StatusUnauthorized)
		}
		io.WriteString(w, "it works")
	}))
	t.Cleanup(up.Close)
	t.Cleanup(func() { n.sp("", "down") })

	url, did := "", 0
	for _, line := range n.readme() {
		did++
		switch words := strings.Fields(line); {
		case line == "sp up", line == "sp install claude":
			n.must("", words[1:]...)
		case line == "sp init":
			n.must("", "init", "--passphrase-fd", "3")
		case line == "sp secret add github --preset github":
			n.must(newcomersToken, "secret", "add", "github", "--kind", "bearer", "--allow", "GET "+up.URL+"/**", "--allow-http", "--allow-network", "127.0.0.0/8", "--passphrase-fd", "3")
		case line == "sp console":
			url = strings.TrimSpace(n.must("", "console"))
		default:
			t.Fatalf("the README says %q, which this test does not know", line)
		}
	}
	if did != 5 {
		t.Errorf("the README's three minutes are %d commands", did)
	}
	if b, err := os.ReadFile(filepath.Join(user, ".claude.json")); err != nil || !bytes.Contains(b, []byte(filepath.Join(n.bin, "sp"))) {
		t.Errorf("sp install claude: %v\n%s", err, b)
	}

	tab.Open(url)
	tab.Reads("Nothing waits")
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	call := exec.CommandContext(ctx, inspector, "--cli", "-e", "HOME="+user, filepath.Join(n.bin, "sp"), "mcp",
		"--method", "tools/call", "--tool-name", "http_request", "--tool-arg", "target=github", "--tool-arg", "path=/zen")
	call.Env = n.env()
	call.WaitDelay = patience
	var out bytes.Buffer
	call.Stdout, call.Stderr = &out, &out
	if err := call.Start(); err != nil {
		t.Fatal(err)
	}
	tab.Reads("/zen")
	tab.Press("article.card", "Approve")
	tab.Type("dialog.proof", "Passphrase", passphrase)
	tab.Keys("\r")
	if err := call.Wait(); err != nil || !strings.Contains(out.String(), "it works") || !strings.Contains(out.String(), "confirmed") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if strings.Contains(out.String(), newcomersToken) {
		t.Error("the token is in the answer")
	}
}

const newcomersToken = "tok-newcomer-7d1e4f9b2c"

// newcomer has a home with nothing in it.
type newcomer struct {
	t         *testing.T
	bin, home string
}

// readme is the commands of the README's three minutes.
func (n *newcomer) readme() (lines []string) {
	n.t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		n.t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)## Three minutes.*?```\n(.*?)```").FindSubmatch(text)
	if block == nil {
		n.t.Fatal("the README has no three minutes")
	}
	for line := range strings.Lines(string(block[1])) {
		line, _, _ = strings.Cut(line, "#")
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

func (n *newcomer) env() []string {
	return []string{"HOME=" + n.home, "PATH=" + n.bin + string(os.PathListSeparator) + os.Getenv("PATH"), "NO_COLOR=1"}
}

// sp runs one command with the passphrase on descriptor 3.
func (n *newcomer) sp(stdin string, args ...string) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	io.WriteString(w, passphrase)
	w.Close()
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(n.bin, "sp"), args...)
	cmd.Env, cmd.ExtraFiles, cmd.Stdin = n.env(), []*os.File{r}, strings.NewReader(stdin)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err = cmd.Run(); err != nil {
		n.t.Logf("sp %q: %v\n%s%s", args, err, out.String(), said.String())
	}
	return out.String(), err
}

func (n *newcomer) must(stdin string, args ...string) string {
	n.t.Helper()
	out, err := n.sp(stdin, args...)
	if err != nil {
		n.t.Fatalf("sp %q: %v", args, err)
	}
	return out
}
