package home

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestFindOneFolder(t *testing.T) {
	h, err := Find(env(EnvHome, "/x/y/", "HOME", "/h", "XDG_DATA_HOME", "/d", "XDG_RUNTIME_DIR", "/r"))
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		h.Data(): "/x/y", h.Log(): "/x/y", h.Runtime(): "/x/y", h.Database(): "/x/y/vault.db",
		h.AgentSocket(): "/x/y/agent.sock", h.OperatorSocket(): "/x/y/operator.sock",
		h.Settings(): "/x/y/spd.toml", h.Pins(): "/x/y/pins", h.LogFile(): "/x/y/spd.log",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := h.AgentSockets(); !slices.Equal(got, []string{"/x/y/agent.sock"}) {
		t.Errorf("candidates %q", got)
	}
}

func TestFindRefuses(t *testing.T) {
	_, err := Find(env(EnvHome, "relative"))
	if !errors.Is(err, ErrNotAbsolute) {
		t.Errorf("relative: %v", err)
	}
	long := "/" + strings.Repeat("x", socketPathMax-len("//agent.sock"))
	if _, err := Find(env(EnvHome, long)); err != nil {
		t.Errorf("longest path: %v", err)
	}
	_, err = Find(env(EnvHome, long+"x"))
	if !errors.Is(err, ErrPathTooLong) || !strings.Contains(err.Error(), strconv.Itoa(socketPathMax)) {
		t.Errorf("one byte more: %v", err)
	}
}

func TestFindWithoutHome(t *testing.T) {
	u, err := user.Current()
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		t.Skip("home: the user database names none")
	}
	h, err := Find(env())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(h.Data(), u.HomeDir+"/") {
		t.Errorf("data in %s, home is %s", h.Data(), u.HomeDir)
	}
}

func TestXDG(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("xdg: not on macOS")
	}
	private, open, other := dir(t, 0o700), dir(t, 0o755), dir(t, 0o700)
	link := filepath.Join(dir(t, 0o700), "link")
	if err := os.Symlink(private, link); err != nil {
		t.Fatal(err)
	}
	const data, last = "/h/.local/share/sallyport/agent.sock", "/run/sallyport/agent.sock"
	sock := func(dir string) string { return filepath.Join(dir, "sallyport/agent.sock") }
	for name, tc := range map[string]struct {
		set, login string
		want       []string
	}{
		"set":               {private, open, []string{sock(private), data, last}},
		"set and login's":   {private, other, []string{sock(private), sock(other), data, last}},
		"both the same":     {private, private, []string{sock(private), data, last}},
		"unset":             {"", other, []string{sock(other), data, last}},
		"open to others":    {open, "/nowhere", []string{data, last}},
		"a symlink":         {link, "/nowhere", []string{data, last}},
		"missing":           {"/nowhere", other, []string{sock(other), data, last}},
		"relative":          {"run", "/nowhere", []string{data, last}},
		"nothing":           {"", "/nowhere", []string{data, last}},
		"one too long":      {"", deep(t, 100), []string{data, last}},
		"one nearly so":     {"", deep(t, 80), nil},
		"of another's root": {"/", "/nowhere", []string{data, last}},
	} {
		h, err := xdg(env("XDG_RUNTIME_DIR", tc.set), "/h", tc.login)
		if err != nil {
			t.Fatal(err)
		}
		want := tc.want
		if want == nil {
			want = []string{sock(tc.login), data, last}
		}
		if got := h.AgentSockets(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if name != "one too long" && h.AgentSocket() != want[0] {
			t.Errorf("%s: spd listens at %s", name, h.AgentSocket())
		}
	}
	h, _ := xdg(env("XDG_DATA_HOME", "/d", "XDG_CONFIG_HOME", "/c"), "/h", "")
	if h.Database() != "/d/sallyport/vault.db" || h.Pins() != "/c/sallyport/pins" || h.Settings() != "/c/sallyport/spd.toml" {
		t.Errorf("%s %s %s", h.Database(), h.Pins(), h.Settings())
	}
	h, _ = xdg(env("XDG_DATA_HOME", "d", "XDG_CONFIG_HOME", "./c"), "/h", "")
	if h.Data() != "/h/.local/share/sallyport" || h.Pins() != "/h/.config/sallyport/pins" {
		t.Errorf("relative folders count: %s %s", h.Data(), h.Pins())
	}
}

// dir is a folder of that mode.
func dir(t *testing.T, mode os.FileMode) string {
	t.Helper()
	d, err := os.MkdirTemp("", "home")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(d) })
	if err := os.Chmod(d, mode); err != nil {
		t.Fatal(err)
	}
	return d
}

// deep is a private folder with a path of n bytes.
func deep(t *testing.T, n int) string {
	t.Helper()
	d := dir(t, 0o700)
	if len(d)+2 > n {
		t.Skipf("temp folder: %s is too long", d)
	}
	d = filepath.Join(d, strings.Repeat("d", n-len(d)-1))
	if err := os.Mkdir(d, 0o700); err != nil {
		t.Fatal(err)
	}
	return d
}
