package clientcfg

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// system is a user's home without anything in it.
func system(t *testing.T, goos string, env ...string) System {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return System{GOOS: goos, Home: dir, Getenv: func(name string) string {
		for i := 0; i < len(env); i += 2 {
			if env[i] == name {
				return env[i+1]
			}
		}
		return ""
	}}
}

func client(t *testing.T, name string) Client {
	c, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func write(t *testing.T, path, text string, mode fs.FileMode) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil { // whatever the umask is
		t.Fatal(err)
	}
}

func text(t *testing.T, path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		name, linux, darwin string
	}{
		{"claude", ".claude.json", ".claude.json"},
		{"claude-desktop", ".config/Claude/claude_desktop_config.json", "Library/Application Support/Claude/claude_desktop_config.json"},
		{"cursor", ".cursor/mcp.json", ".cursor/mcp.json"},
		{"vscode", ".config/Code/User/mcp.json", "Library/Application Support/Code/User/mcp.json"},
		{"codex", ".codex/config.toml", ".codex/config.toml"},
		{"gemini", ".gemini/settings.json", ".gemini/settings.json"},
		{"zed", ".config/zed/settings.json", ".config/zed/settings.json"},
		{"windsurf", ".codeium/windsurf/mcp_config.json", ".codeium/windsurf/mcp_config.json"},
		{"copilot", ".copilot/mcp-config.json", ".copilot/mcp-config.json"},
	} {
		for goos, want := range map[string]string{"linux": c.linux, "darwin": c.darwin} {
			s := system(t, goos)
			ch, err := client(t, c.name).Install(s, sp)
			if err != nil || ch.Path != filepath.Join(s.Home, want) {
				t.Errorf("%s on %s: %v, %s", c.name, goos, err, ch.Path)
				continue
			}
			if err := ch.Write(); err != nil || !strings.Contains(text(t, ch.Path), `"/opt/sp"`) {
				t.Errorf("%s on %s: %v", c.name, goos, err)
			}
			if info, err := os.Stat(ch.Path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v %v", c.name, info.Mode(), err)
			}
		}
	}
	for _, c := range [][3]string{{"claude", "CLAUDE_CONFIG_DIR", ".claude.json"}, {"codex", "CODEX_HOME", "config.toml"}, {"copilot", "COPILOT_HOME", "mcp-config.json"},
		{"gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"}, {"vscode", "XDG_CONFIG_HOME", "Code/User/mcp.json"}, {"zed", "XDG_CONFIG_HOME", "zed/settings.json"}} {
		if ch, err := client(t, c[0]).Install(system(t, "linux", c[1], "/elsewhere"), sp); err != nil || ch.Path != filepath.Join("/elsewhere", c[2]) {
			t.Errorf("%s with %s: %v %s", c[0], c[1], err, ch.Path)
		}
		if ch, err := client(t, c[0]).Install(system(t, "linux", c[1], "relative"), sp); err != nil || strings.Contains(ch.Path, "relative") {
			t.Errorf("%s with a relative %s: %v %s", c[0], c[1], err, ch.Path)
		}
	}
	if _, err := Lookup("emacs"); !errors.Is(err, ErrUnknownClient) {
		t.Errorf("emacs: %v", err)
	}
	for _, bad := range []string{"sp", "./sp", "", "/a\nb", "/a\x00", "/a\xff"} {
		for _, name := range []string{"claude", "codex"} {
			if _, err := client(t, name).Install(system(t, "linux"), bad); err == nil {
				t.Errorf("%s: command %q is taken", name, bad)
			}
		}
	}
	if ch, err := client(t, "codex").Install(system(t, "linux"), `/a "b"\c é`); err != nil || !bytes.Contains(ch.New, []byte(`command = "/a \"b\"\\c é"`)) {
		t.Errorf("a path with quotes: %v\n%s", err, ch.New)
	}
}

// TestLinks: the file behind links is written, the links stay.
func TestLinks(t *testing.T) {
	s := system(t, "linux")
	real := filepath.Join(s.Home, "dotfiles", "cursor.json")
	write(t, real, `{"a": 1}`, 0o640)
	path := filepath.Join(s.Home, ".cursor", "mcp.json")
	write(t, filepath.Join(s.Home, ".cursor", "x"), "", 0o600)
	if err := errors.Join(os.Symlink("hop", path), os.Symlink("../dotfiles/cursor.json", filepath.Join(s.Home, ".cursor", "hop"))); err != nil {
		t.Fatal(err)
	}
	ch, err := client(t, "cursor").Install(s, sp)
	if err != nil || ch.Write() != nil || ch.Path != real {
		t.Fatalf("%v %s", err, ch.Path)
	}
	if to, err := os.Readlink(path); err != nil || to != "hop" {
		t.Errorf("link: %s %v", to, err)
	}
	info, err := os.Stat(real)
	if err != nil || info.Mode().Perm() != 0o640 || !strings.Contains(text(t, real), `"sallyport"`) || text(t, ch.Backup()) != `{"a": 1}` {
		t.Errorf("%v %v\n%s", err, info.Mode(), text(t, real))
	}
	if b, err := os.Stat(ch.Backup()); err != nil || b.Mode().Perm() != 0o640 {
		t.Errorf("backup: %v %v", b.Mode(), err)
	}

	// A link to what is not there yet: that place is made.
	dangling := filepath.Join(s.Home, ".codeium", "windsurf", "mcp_config.json")
	write(t, filepath.Join(filepath.Dir(dangling), "x"), "", 0o600)
	if err := os.Symlink("../../dotfiles/new/windsurf.json", dangling); err != nil {
		t.Fatal(err)
	}
	if ch, err = client(t, "windsurf").Install(s, sp); err != nil || ch.Write() != nil || ch.Path != filepath.Join(s.Home, "dotfiles/new/windsurf.json") {
		t.Errorf("dangling: %v %s", err, ch.Path)
	}
	if ch.Backup() != "" {
		t.Errorf("a backup of nothing: %s", ch.Backup())
	}

	loop := filepath.Join(s.Home, ".gemini", "settings.json")
	write(t, filepath.Join(filepath.Dir(loop), "x"), "", 0o600)
	if err := errors.Join(os.Symlink("b", loop), os.Symlink("settings.json", filepath.Join(filepath.Dir(loop), "b"))); err != nil {
		t.Fatal(err)
	}
	if _, err := client(t, "gemini").Install(s, sp); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("loop: %v", err)
	}
}

// TestPlacesThatAreNoFile: nothing is waited for, nothing written.
func TestPlacesThatAreNoFile(t *testing.T) {
	s := system(t, "linux")
	path := filepath.Join(s.Home, ".cursor", "mcp.json")
	write(t, filepath.Join(s.Home, ".cursor", "x"), "", 0o600)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := client(t, "cursor").Install(s, sp); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("fifo: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(s.Home, ".claude.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := client(t, "claude").Install(s, sp); err == nil {
		t.Error("a folder is taken for a file")
	}
	write(t, filepath.Join(s.Home, ".codex"), "a file", 0o600)
	if ch, err := client(t, "codex").Install(s, sp); err == nil && ch.Write() == nil {
		t.Error("a file is taken for a folder")
	}
	huge := filepath.Join(s.Home, ".gemini", "settings.json")
	write(t, huge, `{"a": "`+strings.Repeat("x", sizeLimit)+`"}`, 0o600)
	if _, err := client(t, "gemini").Install(s, sp); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("huge: %v", err)
	}
	large := `{"history": [` + strings.Repeat(`{"display": "text", "n": [1, 2, {"x": null}]},`, 1<<16) + `1]}`
	write(t, huge, large, 0o600)
	if ch, err := client(t, "gemini").Install(s, sp); err != nil || len(ch.New) < len(large) {
		t.Errorf("large: %v", err)
	}
}

func TestWriteLeavesWhatItCannotReplace(t *testing.T) {
	s := system(t, "linux")
	path := filepath.Join(s.Home, ".cursor", "mcp.json")
	write(t, path, `{}`, 0o600)
	ch, err := client(t, "cursor").Install(s, sp)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, `{"theirs": 1}`, 0o600)
	if err := ch.Write(); !errors.Is(err, ErrChanged) || text(t, path) != `{"theirs": 1}` {
		t.Errorf("changed meanwhile: %v, %s", err, text(t, path))
	}

	if ch, err = client(t, "cursor").Install(s, sp); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(ch.Backup()+"x", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(ch.Backup()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(ch.Backup()+"x", ch.Backup()); err != nil { // a folder stands where the backup would
		t.Fatal(err)
	}
	if err := ch.Write(); err == nil || text(t, path) != `{"theirs": 1}` {
		t.Errorf("no backup possible: %v, %s", err, text(t, path))
	}
	if err := os.Remove(ch.Backup()); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(s.Home, ".cursor", ".sallyport-*"))
	if len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
	if os.Geteuid() == 0 {
		return // root writes into any folder
	}
	if err := os.Chmod(filepath.Dir(path), 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(filepath.Dir(path), 0o700) })
	if err := ch.Write(); !errors.Is(err, fs.ErrPermission) || text(t, path) != `{"theirs": 1}` {
		t.Errorf("a folder that can't be written: %v, %s", err, text(t, path))
	}
}
