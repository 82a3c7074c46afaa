package home

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
)

// Product is the product's name, as it appears in folder names.
const Product = "sallyport"

// EnvHome names the variable that puts everything into one folder.
const EnvHome = "SALLYPORT_HOME"

// ErrPathTooLong is returned by Find when the agents' socket would have a path
// that no socket address can hold.
var ErrPathTooLong = errors.New("path too long for a socket")

// ErrNotAbsolute is returned by Find for a relative folder in the environment.
var ErrNotAbsolute = errors.New("path is not absolute")

// Home is where things lie. It is a value; Find makes it, nothing changes it.
// The zero Home names no folder and Prepare refuses it.
type Home struct {
	data    string
	config  string
	runtime []string // folders that may hold agent.sock; spd uses the first
	alone   bool     // SALLYPORT_HOME: nowhere else is looked
	served  bool     // the gateway is another user's than those whom it answers
}

// Find works the folders out from env (os.Getenv, or a test's). It touches
// nothing but the metadata of candidate runtime folders.
func Find(env func(string) string) (Home, error) {
	h, err := find(env)
	if err != nil {
		return Home{}, fmt.Errorf("find home: %w", err)
	}
	if err := fits(h.AgentSocket()); err != nil {
		return Home{}, fmt.Errorf("find home: %w", err)
	}
	return h, nil
}

func find(env func(string) string) (Home, error) {
	if dir := env(EnvHome); dir != "" {
		if !filepath.IsAbs(dir) {
			return Home{}, fmt.Errorf("%s %q: %w", EnvHome, dir, ErrNotAbsolute)
		}
		dir = filepath.Clean(dir)
		return Home{data: dir, config: dir, runtime: []string{dir}, alone: true}, nil
	}
	userHome, err := homeFolder(env)
	if err != nil {
		return Home{}, err
	}
	if runtime.GOOS == "darwin" {
		dir := filepath.Join(userHome, "Library", "Application Support", "Sallyport")
		return Home{data: dir, config: dir, runtime: []string{dir}}, nil
	}
	return xdg(env, userHome, filepath.Join("/run/user", strconv.Itoa(os.Geteuid())))
}

// xdg applies the base directory rules. A relative value counts as unset, as
// the specification wants. login is where the login manager keeps the runtime
// folder of this user.
func xdg(env func(string) string, userHome, login string) (Home, error) {
	base := func(name, fallback string) string {
		if dir := env(name); filepath.IsAbs(dir) {
			return filepath.Join(dir, Product)
		}
		return filepath.Join(userHome, fallback, Product)
	}
	h := Home{
		data:   base("XDG_DATA_HOME", ".local/share"),
		config: base("XDG_CONFIG_HOME", ".config"),
	}
	seen := make(map[string]bool)
	for _, dir := range []string{env("XDG_RUNTIME_DIR"), login} {
		if !filepath.IsAbs(dir) || CheckPrivate(dir) != nil {
			continue
		}
		if dir = filepath.Join(dir, Product); !seen[dir] {
			seen[dir] = true
			h.runtime = append(h.runtime, dir)
		}
	}
	h.runtime = append(h.runtime, h.data)
	return h, nil
}

// homeFolder is the user's home: HOME, or what the user database says, because
// hosts start us with an empty environment.
func homeFolder(env func(string) string) (string, error) {
	if dir := env("HOME"); filepath.IsAbs(dir) {
		return filepath.Clean(dir), nil
	}
	u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil {
		return "", fmt.Errorf("look up user: %w", err)
	}
	if !filepath.IsAbs(u.HomeDir) {
		return "", fmt.Errorf("home folder %q: %w", u.HomeDir, ErrNotAbsolute)
	}
	return filepath.Clean(u.HomeDir), nil
}

// Data is the folder of the vault and the log.
func (h Home) Data() string { return h.data }

// Database is the vault's SQLite file.
func (h Home) Database() string { return filepath.Join(h.data, "vault.db") }

// Log is the folder that holds audit.pub and audit/.
func (h Home) Log() string { return h.data }

// Files is the folder of long answers, each sealed. Its writer makes it with MakePrivate.
func (h Home) Files() string { return filepath.Join(h.data, "files") }

// LogFile takes spd's stderr when it runs in the background.
func (h Home) LogFile() string { return filepath.Join(h.data, "spd.log") }

// Settings is the file of addresses and lower limits; it decides no authority.
func (h Home) Settings() string { return filepath.Join(h.config, "spd.toml") }

// Pins is the folder of pinned log keys. It lies outside audit/, so that a
// rewritten log can't bring its own pin. Its writer makes it with MakePrivate.
func (h Home) Pins() string { return filepath.Join(h.config, "pins") }

// Runtime is the folder of the sockets that spd makes.
func (h Home) Runtime() string {
	if len(h.runtime) == 0 {
		return ""
	}
	return h.runtime[0]
}

// AgentSocket is where spd listens to agents.
func (h Home) AgentSocket() string { return filepath.Join(h.Runtime(), "agent.sock") }

// AgentSockets are the places where sp looks for spd, in that order. One that
// is too long for a socket address is left out.
func (h Home) AgentSockets() []string {
	var paths []string
	for _, dir := range h.candidates() {
		if p := filepath.Join(dir, "agent.sock"); fits(p) == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// candidates are the runtime folders a client looks into.
func (h Home) candidates() []string {
	if h.alone {
		return h.runtime
	}
	return append(append([]string{}, h.runtime...), systemRuntime)
}

// fits checks path against sun_path, which also holds a final NUL.
func fits(path string) error {
	if len(path) > socketPathMax {
		return fmt.Errorf("%w: %d bytes, at most %d: %s", ErrPathTooLong, len(path), socketPathMax, path)
	}
	return nil
}
