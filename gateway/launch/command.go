package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	stepsMax   = 16  // launchers and interpreters in one chain
	shebangMax = 256 // bytes that the kernel reads of a first line (binfmt_script)
)

var errNoProgram = errors.New("no such program")

// command follows a command line to the code that acts. It reads files and
// executes nothing. Its paths are absolute.
type command struct {
	dir  string
	env  []string
	argv []string // what is looked at now
	exe  string   // its executable, as named
	runs bool     // exe runs already: whatever its first line led to is past
	code
}

// code is what was found on the way.
type code struct {
	kind      kind
	entry     string
	launchers []string
	files     []string // that belong to the code besides the entry
	config    []string
	roots     []string // folders that the runtime was told to load from
	image     string
	reasons   []string
	deferred  bool
}

// kind is the family of a runtime; "" is compiled code.
type kind string

const (
	node   kind = "node"
	bun    kind = "bun"
	deno   kind = "deno"
	python kind = "python"
	java   kind = "java"
	ruby   kind = "ruby"
	perl   kind = "perl"
	php    kind = "php"
	dotnet kind = "dotnet"
	shell  kind = "shell"
)

// follow walks from launcher to launcher until a program is none.
func (c *command) follow() error {
	for range stepsMax {
		if len(c.argv) == 0 || c.argv[0] == "" {
			return fmt.Errorf("find program: %w", errNoProgram)
		}
		if !c.runs {
			exe, err := c.find(c.argv[0])
			if err != nil {
				return err
			}
			c.exe = exe
		}
		next := c.program()
		if next == nil {
			return nil
		}
		c.argv, c.runs = next, false
	}
	c.later(fmt.Sprintf("more than %d launchers", stepsMax))
	return nil
}

// later notes that the code which acts is known only once it runs.
func (c *command) later(reason string) {
	c.deferred = true
	c.unpinned(reason)
}

func (c *command) unpinned(reason string) { c.reasons = append(c.reasons, reason) }

func (c *command) launched() { c.launchers = append(c.launchers, c.exe) }

// getenv is the first value of a variable, as getenv(3) finds it.
func (c *command) getenv(name string) string {
	for _, v := range c.env {
		if rest, ok := strings.CutPrefix(v, name); ok && strings.HasPrefix(rest, "=") {
			return rest[1:]
		}
	}
	return ""
}

// abs is a path as seen from the working directory.
func (c *command) abs(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(c.dir, path)
}

// find looks a program up as execvp(3) does.
func (c *command) find(name string) (string, error) {
	if strings.Contains(name, "/") {
		if p := c.abs(name); executable(p) {
			return p, nil
		}
		return "", fmt.Errorf("find program %q: %w", clip(name), errNoProgram)
	}
	for _, dir := range filepath.SplitList(c.getenv("PATH")) {
		if p := filepath.Join(c.abs(dir), name); executable(p) {
			return p, nil
		}
	}
	return "", fmt.Errorf("find program %q: %w", clip(name), errNoProgram)
}

func executable(path string) bool {
	var st unix.Stat_t
	return stat(path, &st) == nil && regular(&st) && st.Mode&0o111 != 0
}

func isFile(path string) bool {
	var st unix.Stat_t
	return stat(path, &st) == nil && regular(&st)
}

func isDir(path string) bool {
	var st unix.Stat_t
	return stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// real is path without links, or path itself where that can't be told.
func real(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return path
}

// upward calls f with dir and each folder above it, until f says stop.
func upward(dir string, f func(dir string) (stop bool)) {
	for range 2 * depthMax {
		if f(dir) || dir == "/" || dir == "." {
			return
		}
		dir = filepath.Dir(dir)
	}
}

// shebang is the interpreter that a file's first line names, and its one
// argument; nil if there is none.
func shebang(path string) []string {
	f, _, err := open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, shebangMax)
	n, _ := f.Read(b)
	line, ok := bytes.CutPrefix(b[:n], []byte("#!"))
	if !ok {
		return nil
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	s := strings.Trim(string(line), " \t\r")
	if s == "" {
		return nil
	}
	if i := strings.IndexAny(s, " \t"); i > 0 {
		return []string{s[:i], strings.TrimLeft(s[i:], " \t")}
	}
	return []string{s}
}

// base is a program's name, without a version: python3.11 is python.
func base(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), " (deleted)")
	if short := strings.TrimRight(name, "0123456789."); short != "" {
		name = short
	}
	return strings.TrimSuffix(name, "-")
}

// readFile reads a small file of somebody else's.
func readFile(path string) ([]byte, error) {
	f, s, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if s.size > 1<<20 {
		return nil, errTooLarge
	}
	b := make([]byte, s.size)
	n, err := f.Read(b)
	if err != nil && n == 0 && s.size > 0 {
		return nil, err
	}
	return b[:n], nil
}

// names of the folder, sorted; nil if it can't be read.
func names(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	all, _ := d.Readdirnames(filesMax)
	slices.Sort(all)
	return all
}
