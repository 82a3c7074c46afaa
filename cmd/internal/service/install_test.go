package service

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// manager is a service manager that notes what it is told.
type manager struct {
	told []string
	fail string // a word of the line that it refuses
	says string
}

func (m *manager) run(_ context.Context, name string, args ...string) (string, error) {
	line := strings.Join(append([]string{name}, args...), " ")
	m.told = append(m.told, line)
	if m.fail != "" && strings.Contains(line, m.fail) {
		return "Failed to connect to bus: No medium found\n", errors.New("exit status 1")
	}
	return m.says, nil
}

func newHost(t *testing.T, system string) (Host, *manager) {
	dir := t.TempDir()
	m := &manager{}
	return Host{OS: system, Root: dir, Home: filepath.Join(dir, "home"), Config: filepath.Join(dir, "home/.config"), Run: m.run}, m
}

func program(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "spd")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInstallOwn(t *testing.T) {
	for system, want := range map[string][]string{
		"linux":  {"systemctl --user daemon-reload", "systemctl --user enable --now sallyport.service"},
		"darwin": {"launchctl bootstrap gui/"},
	} {
		h, m := newHost(t, system)
		who := Served{Program: program(t, h.Root), Environment: []string{"SALLYPORT_HOME=/srv/x"}}
		for range 2 {
			if err := h.Install(t.Context(), User, who, true); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(h.Path(User))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{who.Program, "SALLYPORT_HOME", "/srv/x"} {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s: no %q in\n%s", system, part, text)
			}
		}
		for i, line := range want {
			if !strings.HasPrefix(m.told[i], line) {
				t.Errorf("%s: told %q, want %q", system, m.told, want)
			}
		}
		m.says = "active\n"
		st := h.State(t.Context(), User)
		if !st.Installed || st.ServesUID != -1 || st.Active != "active" || st.Program != who.Program || st.Missing {
			t.Errorf("%s: %+v", system, st)
		}
		if err := os.Remove(who.Program); err != nil {
			t.Fatal(err)
		}
		if st := h.State(t.Context(), User); !st.Missing {
			t.Errorf("%s: its program is gone: %+v", system, st)
		}
		for _, want := range []bool{true, false} {
			if removed, err := h.Uninstall(t.Context(), User); err != nil || removed != want {
				t.Errorf("%s: removed %v, %v", system, removed, err)
			}
		}
		if st := h.State(t.Context(), User); st.Installed {
			t.Errorf("%s: still there", system)
		}
	}
}

// Where the manager doesn't listen the file is in place all the same, and that is told apart.
func TestInstallUntold(t *testing.T) {
	h, m := newHost(t, "linux")
	m.fail = "daemon-reload"
	who := Served{Program: program(t, h.Root)}
	if err := h.Install(t.Context(), User, who, true); !errors.Is(err, ErrManager) || !strings.Contains(err.Error(), "No medium") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(h.Path(User)); err != nil {
		t.Error(err)
	}
	m.fail = "disable"
	if removed, err := h.Uninstall(t.Context(), User); !removed || !errors.Is(err, ErrManager) {
		t.Errorf("%v %v", removed, err)
	}
	m.told = nil
	if err := h.Install(t.Context(), User, who, false); err != nil || m.told != nil {
		t.Errorf("not to be started: %v, told %q", err, m.told)
	}
}

// The machine's service starts only what root alone can exchange.
func TestInstallSystemSafe(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root: only root installs the machine's service")
	}
	h, m := newHost(t, "linux")
	bin := filepath.Join(h.Root, "bin")
	if err := errors.Join(os.Chmod(h.Root, 0o755), os.Mkdir(bin, 0o755)); err != nil {
		t.Fatal(err)
	}
	who := alice
	who.Program = program(t, bin)
	if err := h.Install(t.Context(), System, who, true); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(h.Path(System)); err != nil || !strings.Contains(string(text), "ExecStart="+who.Program+" serve --serve-uid 1000\n") {
		t.Errorf("%v\n%s", err, text)
	}
	if st := h.Installed(System); st.ServesUID != alice.UID || st.Program != who.Program {
		t.Errorf("%+v", st)
	}
	for _, step := range []struct {
		name  string
		spoil func() error
	}{
		{"a folder that others write", func() error { return os.Chmod(bin, 0o777) }},
		{"a program of somebody else", func() error { return errors.Join(os.Chmod(bin, 0o755), os.Chown(who.Program, 1000, 1000)) }},
		{"a link into somebody's folder", func() error {
			theirs := filepath.Join(h.Root, "theirs")
			return errors.Join(os.Mkdir(theirs, 0o755), os.Rename(who.Program, filepath.Join(theirs, "spd")),
				os.Chown(filepath.Join(theirs, "spd"), 0, 0), os.Chown(theirs, 1000, 1000), os.Symlink(filepath.Join(theirs, "spd"), who.Program))
		}},
		{"no program", func() error { return os.Remove(who.Program) }},
	} {
		if err := step.spoil(); err != nil {
			t.Fatal(err)
		}
		m.told = nil
		if err := h.Install(t.Context(), System, who, true); err == nil || m.told != nil {
			t.Errorf("%s: %v, told %q", step.name, err, m.told)
		}
	}
}

// A link that somebody else can turn is no part of what the machine's service starts.
func TestInstallSystemWithoutLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root: only root installs the machine's service")
	}
	h, _ := newHost(t, "linux")
	bin, theirs := filepath.Join(h.Root, "bin"), filepath.Join(h.Root, "theirs")
	if err := errors.Join(os.Chmod(h.Root, 0o755), os.Mkdir(bin, 0o755), os.Mkdir(theirs, 0o755), os.Chown(theirs, 1000, 1000)); err != nil {
		t.Fatal(err)
	}
	real, link := program(t, bin), filepath.Join(theirs, "spd")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	who := alice
	who.Program = link
	if err := h.Install(t.Context(), System, who, false); err != nil {
		t.Fatal(err)
	}
	if got := h.Installed(System).Program; got != real {
		t.Errorf("it starts %s, which another user can turn; want %s", got, real)
	}
}

// What would mean something else to a service manager is refused.
func TestInstallRefuses(t *testing.T) {
	for _, s := range []Served{{Program: "/home/a b/spd"}, {Program: "spd"}, {Program: "/x%h/spd"}, {Environment: []string{"SALLYPORT_HOME=/a\nExecStart=/bin/sh"}},
		{Environment: []string{"A B=/x"}}, {Program: "/x</string>"}} {
		h, _ := newHost(t, "linux")
		if err := h.Install(t.Context(), User, s, false); err == nil {
			t.Errorf("%+v is installed", s)
		}
		if _, err := os.Stat(h.Path(User)); err == nil {
			t.Errorf("%+v left a file", s)
		}
	}
	h, _ := newHost(t, "linux")
	if h.Install(t.Context(), User, alice, false) == nil || h.Install(t.Context(), System, Served{}, false) == nil {
		t.Error("a scope without whom it serves, or the other way round")
	}
}

// Of both service managers' files it is read whom they serve.
func TestServesUID(t *testing.T) {
	for _, system := range []string{"linux", "darwin"} {
		h, _ := newHost(t, system)
		text, err := h.File(alice)
		if err == nil {
			err = replace(h.Path(System), text)
		}
		if err != nil {
			t.Fatal(err)
		}
		if st := h.Installed(System); st.ServesUID != alice.UID || st.Program != DefaultProgram {
			t.Errorf("%s: %+v", system, st)
		}
	}
}

func TestOwnUnit(t *testing.T) {
	var b bytes.Buffer
	if err := Systemd(&b, Served{Program: "/bin/true", Environment: []string{"SALLYPORT_HOME=/srv/x"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("SALLYPORT_REAL") == "require" {
			t.Fatal(err)
		}
		t.Skip("systemd-analyze: " + err.Error())
	}
	path := filepath.Join(t.TempDir(), "sallyport.service")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("sallyport.service")) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
