package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Scope is whose service it is. The zero Scope is no service.
type Scope string

const (
	User   Scope = "user"   // the user's own, started with the user's session
	System Scope = "system" // the machine's, under a user of its own
)

// owner is the user under whom the machine's service runs.
const owner = "sallyport"

// managerWithin bounds one word to the service manager; a start may wait for the network.
const managerWithin = 2 * time.Minute

// Host is the machine, as far as services are concerned. Run starts a program and returns what it said.
type Host struct {
	OS     string // runtime.GOOS
	Root   string // before every path of the machine's; "" but in tests
	Config string // the user's folder of settings (systemd: of which systemd/user is below)
	Home   string // the user's home
	Run    func(ctx context.Context, name string, args ...string) (string, error)
}

// Path is where the service file of that scope lies.
func (h Host) Path(s Scope) string {
	switch {
	case h.OS == "darwin" && s == User:
		return filepath.Join(h.Home, "Library/LaunchAgents/sallyport.plist")
	case h.OS == "darwin":
		return filepath.Join(h.Root, "/Library/LaunchDaemons/sallyport.plist")
	case s == User:
		return filepath.Join(h.Config, "systemd/user/sallyport.service")
	}
	return filepath.Join(h.Root, "/etc/systemd/system/sallyport.service")
}

// File is the service file's text.
func (h Host) File(s Served) ([]byte, error) {
	var b bytes.Buffer
	write := Systemd
	if h.OS == "darwin" {
		write = Launchd
	}
	err := write(&b, s)
	return b.Bytes(), err
}

// ErrManager is wrapped by what Install and Uninstall return when the file is as wanted and the service manager could
// not be told: nothing is started or stopped.
var ErrManager = errors.New("the service manager can't be told")

// Install writes the service file, and with start tells the manager to start it now and from then on. Doing it twice is
// doing it once.
func (h Host) Install(ctx context.Context, s Scope, who Served, start bool) error {
	if (s == User) != who.own() {
		return errors.New("install service: whom it serves is said for the machine's service alone")
	}
	if s == System {
		path, err := h.safe(who.Program)
		if err != nil {
			return fmt.Errorf("install service: %w", err)
		}
		who.Program = path // the way to it may lead through links that others can turn
	}
	text, err := h.File(who)
	if err != nil {
		return err
	}
	if s == System && h.OS == "linux" {
		if err := h.account(ctx); err != nil {
			return err
		}
	}
	if err := replace(h.Path(s), text); err != nil {
		return fmt.Errorf("install service: %w", err)
	}
	if !start {
		return nil
	}
	for _, line := range h.starting(s) {
		if err := h.tell(ctx, line); err != nil {
			return err
		}
	}
	return nil
}

// Uninstall stops the service and takes its file away. Vault, log and the account stay.
func (h Host) Uninstall(ctx context.Context, s Scope) (removed bool, err error) {
	path := h.Path(s)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	told := h.tell(ctx, h.stopping(s)) // before the file goes: the manager reads it
	if err := os.Remove(path); err != nil {
		return false, errors.Join(fmt.Errorf("uninstall service: %w", err), told)
	}
	if told == nil && h.OS == "linux" {
		told = h.tell(ctx, h.systemctl(s, "daemon-reload"))
	}
	return true, told
}

// State is what is known of one scope's service.
type State struct {
	Scope     Scope  `json:"scope"`
	Path      string `json:"path"`
	Installed bool   `json:"installed"`
	Active    string `json:"active"`    // the manager's word; "" where there is none
	Program   string `json:"program"`   // what the file starts
	ServesUID int    `json:"servesUid"` // the machine's service: whom it serves; else -1
	Missing   bool   `json:"missing"`   // that program is not there
}

// State looks at one scope.
func (h Host) State(ctx context.Context, s Scope) State {
	st := h.Installed(s)
	if !st.Installed {
		return st
	}
	line := h.systemctl(s, "is-active", "sallyport.service")
	if h.OS == "darwin" {
		line = []string{"launchctl", "print", h.domain(s) + "/sallyport"}
	}
	ctx, cancel := context.WithTimeout(ctx, managerWithin)
	defer cancel()
	out, err := h.Run(ctx, line[0], line[1:]...)
	switch word, _, _ := strings.Cut(strings.TrimSpace(out), "\n"); {
	case h.OS == "darwin" && err == nil:
		st.Active = "active"
	case h.OS != "darwin" && !strings.Contains(word, " "):
		st.Active = word
	}
	return st
}

// Installed is what the file alone tells; nobody is asked.
func (h Host) Installed(s Scope) State {
	st := State{Scope: s, Path: h.Path(s), ServesUID: -1}
	text, err := os.ReadFile(st.Path)
	if err != nil {
		return st
	}
	st.Installed = true
	st.Program = started(text)
	_, err = os.Stat(st.Program)
	st.Missing = err != nil
	if m := served.FindSubmatch(text); m != nil {
		st.ServesUID, _ = strconv.Atoi(string(m[1]))
	}
	return st
}

var served = regexp.MustCompile(`--serve-uid(?: |</string>\s*<string>)(\d{1,9})`)

// started is the program that a service file starts.
func started(text []byte) string {
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if cmd, ok := strings.CutPrefix(line, "ExecStart="); ok {
			return strings.TrimSuffix(strings.SplitN(cmd, " ", 2)[0], "\n")
		}
		if p, ok := strings.CutPrefix(line, "<string>/"); ok && strings.Contains(p, "spd<") {
			return "/" + strings.TrimSuffix(p, "</string>")
		}
	}
	return ""
}

func (h Host) starting(s Scope) [][]string {
	if h.OS == "darwin" {
		return [][]string{{"launchctl", "bootstrap", h.domain(s), h.Path(s)}}
	}
	return [][]string{h.systemctl(s, "daemon-reload"), h.systemctl(s, "enable", "--now", "sallyport.service")}
}

// Start is the command that starts an installed service.
func (h Host) Start(s Scope) string {
	if h.OS == "darwin" {
		return "launchctl kickstart " + h.domain(s) + "/sallyport"
	}
	return strings.Join(h.systemctl(s, "start", "sallyport"), " ")
}

func (h Host) stopping(s Scope) []string {
	if h.OS == "darwin" {
		return []string{"launchctl", "bootout", h.domain(s) + "/sallyport"}
	}
	return h.systemctl(s, "disable", "--now", "sallyport.service")
}

func (h Host) domain(s Scope) string {
	if s == System {
		return "system"
	}
	return fmt.Sprintf("gui/%d", os.Getuid())
}

func (h Host) systemctl(s Scope, args ...string) []string {
	line := []string{"systemctl"}
	if s == User {
		line = append(line, "--user")
	}
	return append(line, args...)
}

func (h Host) tell(ctx context.Context, line []string) error {
	ctx, cancel := context.WithTimeout(ctx, managerWithin)
	defer cancel()
	if out, err := h.Run(ctx, line[0], line[1:]...); err != nil {
		return fmt.Errorf("%w: %s: %w: %s", ErrManager, strings.Join(line, " "), err, strings.TrimSpace(out))
	}
	return nil
}

// account makes the user under whom the machine's service runs, if there is none.
func (h Host) account(ctx context.Context) error {
	if _, err := user.Lookup(owner); err == nil || h.Root != "" {
		return nil
	}
	out, err := h.Run(ctx, "useradd", "--system", "--user-group", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", owner)
	if err != nil {
		return fmt.Errorf("make the user %s: %w: %s", owner, err, strings.TrimSpace(out))
	}
	return nil
}

// replace writes the file whole or not at all.
func replace(path string, text []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".sallyport-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
