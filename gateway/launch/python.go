package launch

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// python finds the script, module or archive that python runs first (3.x,
// "Interface options").
func (c *command) python(args []string) []string {
	c.kind = python
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "-" || len(a) == 0 || a[0] != '-' {
			if a != "-" && a != "" {
				c.entry = c.pythonScript(c.abs(a))
			}
			return nil
		}
		if strings.HasPrefix(a, "--") {
			if a == "--check-hash-based-pycs" {
				i++
			}
			continue
		}
		if at := strings.IndexAny(a[1:], "cmWX"); at >= 0 { // the rest of the word, or the next one
			value := a[at+2:]
			if value == "" && i+1 < len(args) {
				i++
				value = args[i]
			}
			switch a[at+1] {
			case 'c':
				return nil // the code is the command line
			case 'm':
				return c.pythonModule(value, args[i+1:])
			}
		}
	}
	return nil
}

// pythonScript is a file, or what a folder or an archive starts with.
func (c *command) pythonScript(path string) string {
	if main := filepath.Join(path, "__main__.py"); isFile(main) {
		return main
	}
	return path
}

// pythonModule is what -m runs.
func (c *command) pythonModule(name string, args []string) []string {
	path := filepath.FromSlash(strings.ReplaceAll(name, ".", "/"))
	c.roots = append(c.roots, c.dir)
	dirs := append([]string{c.dir}, c.sitePackages()...)
	if v := pythonVersion(c.exe); v != "" { // its own library, last: the runtime's version stands for that
		dirs = append(dirs, filepath.Join(filepath.Dir(filepath.Dir(real(c.exe))), "lib", v))
	}
	for _, dir := range dirs {
		for _, f := range []string{path + "/__main__.py", path + ".py"} {
			if p := filepath.Join(dir, f); isFile(p) {
				c.entry = p
				if first := filepath.Join(dir, path, "__init__.py"); isFile(first) {
					c.files = append(c.files, first)
				}
				return nil
			}
		}
	}
	c.unpinned("python module " + clip(name) + " is not where it was looked for")
	return nil
}

// sitePackages are the folders that this python resolves packages from, without
// its own library.
func (c *command) sitePackages() (dirs []string) {
	for _, p := range filepath.SplitList(c.getenv("PYTHONPATH")) {
		if p != "" {
			dirs = append(dirs, c.abs(p))
		}
	}
	prefix := filepath.Dir(filepath.Dir(c.exe))
	virtual := isFile(filepath.Join(prefix, "pyvenv.cfg"))
	prefixes := []string{prefix}
	if !virtual {
		prefixes = []string{filepath.Dir(filepath.Dir(real(c.exe)))}
		if prefixes[0] == "/usr" {
			prefixes = append(prefixes, "/usr/local")
		}
		if home := c.getenv("HOME"); home != "" && c.getenv("PYTHONNOUSERSITE") == "" {
			prefixes = append(prefixes, filepath.Join(home, ".local"))
		}
	}
	version := pythonVersion(c.exe)
	for _, p := range prefixes {
		for _, lib := range names(filepath.Join(p, "lib")) {
			if lib == version || version == "" && strings.HasPrefix(lib, "python3.") || lib == "python3" {
				for _, kind := range []string{"site-packages", "dist-packages"} {
					if d := filepath.Join(p, "lib", lib, kind); isDir(d) {
						dirs = append(dirs, d)
					}
				}
			}
		}
	}
	return append(dirs, pathFiles(dirs)...)
}

// pathFiles are the folders that *.pth files add (site): editable installs.
func pathFiles(dirs []string) (more []string) {
	for _, dir := range dirs {
		for _, name := range names(dir) {
			if !strings.HasSuffix(name, ".pth") {
				continue
			}
			b, err := readFile(filepath.Join(dir, name))
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(b)) {
				line = strings.TrimSpace(line)
				if filepath.IsAbs(line) && isDir(line) && len(more) < depthMax {
					more = append(more, filepath.Clean(line))
				}
			}
		}
	}
	return more
}

// pythonVersion is "python3.11", from a file's name without links; "" if that
// doesn't tell.
func pythonVersion(exe string) string {
	name := filepath.Base(strings.TrimSuffix(real(exe), " (deleted)"))
	if rest, ok := strings.CutPrefix(name, "python3."); ok && rest != "" {
		return name
	}
	return ""
}

// projectRunner follows uv, pipx, poetry and their like.
func (c *command) projectRunner(name string, args []string) []string {
	const values = "--with --with-editable --with-requirements -p --python --project --directory --index --default-index --index-url" +
		" --extra --group --only-group --env-file --from --package --cache-dir --config-file --spec -C"
	operands, flags := options(args, values)
	if d := cmp.Or(flags["--directory"], flags["--project"], flags["-C"]); d != "" {
		c.dir = c.abs(d)
	}
	if name == "uvx" {
		operands = append([]string{"tool", "run"}, operands...)
	}
	if len(operands) > 1 && operands[0] == "tool" && operands[1] == "run" || len(operands) > 0 && name == "pipx" {
		c.later(name + ": without a lock, what it runs is resolved at each start")
		return nil
	}
	if len(operands) < 2 || operands[0] != "run" && operands[0] != "exec" {
		c.later(name + " chooses what runs")
		return nil
	}
	operands, more := options(operands[1:], values)
	if _, with := more["--with"]; with {
		c.unpinned(name + " --with is resolved at each start")
	}
	if d := cmp.Or(more["--directory"], more["--project"]); d != "" {
		c.dir = c.abs(d)
	}
	if len(operands) == 0 {
		return nil
	}
	if name == "bundle" {
		if f := filepath.Join(c.dir, "Gemfile"); isFile(f) {
			c.config = append(c.config, f)
		}
		return operands
	}
	return c.virtual(name, operands)
}

// virtual is a command of the project's own environment.
func (c *command) virtual(runner string, operands []string) (next []string) {
	script := strings.HasSuffix(operands[0], ".py") && isFile(c.abs(operands[0]))
	upward(c.dir, func(d string) bool {
		bin := filepath.Join(d, ".venv/bin")
		if !isDir(bin) {
			return false
		}
		if script {
			next = slices.Concat([]string{filepath.Join(bin, "python")}, operands)
		} else if p := filepath.Join(bin, operands[0]); executable(p) {
			next = slices.Concat([]string{p}, operands[1:])
		}
		return true
	})
	if next == nil {
		c.later(runner + ": its environment is made when it starts")
	}
	return next
}
