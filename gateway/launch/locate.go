package launch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// lockfiles by runtime, the first one found in a folder is the record's.
var lockfiles = []struct {
	kinds []kind
	names []string
}{
	{[]kind{node, bun, deno}, []string{"package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb", "deno.lock"}},
	{[]kind{python}, []string{"uv.lock", "poetry.lock", "Pipfile.lock", "pdm.lock"}},
	{[]kind{ruby}, []string{"Gemfile.lock"}},
	{[]kind{php}, []string{"composer.lock"}},
	{[]kind{dotnet}, []string{"packages.lock.json"}},
	{[]kind{java}, []string{"gradle.lockfile"}},
	{[]kind{""}, []string{"Cargo.lock", "go.sum"}},
}

// lockNames are the names of a runtime's lockfiles.
func lockNames(k kind) []string {
	for _, l := range lockfiles {
		if slices.Contains(l.kinds, k) {
			return l.names
		}
	}
	return nil
}

// locks are the lockfiles of the nearest folder upwards that has one of the
// runtime's own, the record's first. A folder of many programs ends the way: what
// lies there is nobody's lockfile.
func (c *command) locks() []string {
	from := c.source()
	if from == "" {
		return nil
	}
	var found []string
	look := func(names ...string) {
		upward(from, func(d string) bool {
			if c.everybodys(d) {
				return true
			}
			for _, name := range names {
				if p := filepath.Join(d, name); isFile(p) {
					found = append(found, p)
				}
			}
			return len(found) > 0
		})
	}
	look(lockNames(c.kind)...)
	if found == nil && c.kind == node { // what npm itself wrote when it installed
		look("node_modules/.package-lock.json")
	}
	return found
}

// lockBeside is a lockfile in the folder that holds a node_modules, "" if none.
func lockBeside(dir string) string {
	for _, name := range append(slices.Clone(lockNames(node)), "node_modules/.package-lock.json") {
		if p := filepath.Join(dir, name); isFile(p) {
			return p
		}
	}
	return ""
}

// source is the folder that the code is looked for from, upwards. A package below
// node_modules may carry lockfiles of its own making, which nobody resolves by:
// the folder that holds the node_modules counts.
func (c *command) source() string {
	at := c.entry
	if at == "" {
		if c.kind == "" || c.deferred {
			return ""
		}
		return c.dir
	}
	at = real(at)
	if i := strings.Index(at, "/node_modules/"); i >= 0 && c.kind != "" {
		return at[:i+1]
	}
	if venv := c.environment(); venv != "" {
		return filepath.Dir(venv)
	}
	return filepath.Dir(at)
}

// environment is the virtual environment that the entry lies in, "" if none.
func (c *command) environment() (dir string) {
	if c.kind == python && c.entry != "" {
		upward(filepath.Dir(c.entry), func(d string) bool {
			if isFile(filepath.Join(d, "pyvenv.cfg")) {
				dir = d
			}
			return dir != ""
		})
	}
	return dir
}

// markers name the folder of a package.
var markers = map[kind][]string{
	node: {"package.json"}, bun: {"package.json"}, deno: {"deno.json", "deno.jsonc", "package.json"},
	python: {"pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"},
	ruby:   {"Gemfile"}, php: {"composer.json"},
}

// trees are the folders whose files belong to the code: the entry's package, and
// what its runtime resolves packages from. shared says that the entry lies in a
// folder of everybody's, whose files mean nothing.
func (c *command) trees() (dirs []string, shared bool) {
	switch {
	case c.kind == "" || c.kind == shell || c.image != "":
		return nil, false // a compiled program is one file; a script starts others
	case c.kind == java || c.kind == dotnet:
		return c.roots, false
	}
	dirs = slices.Clone(c.roots)
	if c.entry != "" {
		own, found := filepath.Dir(real(c.entry)), false
		upward(own, func(d string) bool {
			if c.everybodys(d) {
				return true
			}
			found = slices.ContainsFunc(markers[c.kind], func(m string) bool { return isFile(filepath.Join(d, m)) })
			if found {
				own = d
			}
			return found
		})
		if venv := c.environment(); venv != "" && !found {
			own = venv
		}
		if c.everybodys(own) {
			shared = true
		} else {
			dirs = append(dirs, own)
		}
	}
	switch c.kind {
	case node, bun, deno:
		at := c.dir
		if c.entry != "" {
			at = filepath.Dir(real(c.entry))
		}
		upward(at, func(d string) bool {
			if m := filepath.Join(d, "node_modules"); isDir(m) && filepath.Base(d) != "node_modules" {
				dirs = append(dirs, m)
			}
			return false
		})
		for _, d := range filepath.SplitList(c.getenv("NODE_PATH")) {
			if d != "" && isDir(c.abs(d)) {
				dirs = append(dirs, c.abs(d))
			}
		}
	case python:
		dirs = append(dirs, c.sitePackages()...)
	}
	return dirs, shared
}

// everybodys says whether a folder holds more than one program's code.
func (c *command) everybodys(dir string) bool {
	home := c.getenv("HOME")
	if home != "" && (dir == filepath.Clean(home) || dir == filepath.Join(home, "bin") || dir == filepath.Join(home, ".local/bin")) {
		return true
	}
	return slices.Contains([]string{"/", "/tmp", "/var/tmp", "/home", "/root", "/usr", "/opt", "/etc", "/var", "/srv", "/bin", "/sbin",
		"/usr/bin", "/usr/sbin", "/usr/local", "/usr/local/bin", "/usr/share", "/usr/lib", "/Users", filepath.Clean(os.TempDir())}, dir)
}
