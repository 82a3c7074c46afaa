package launch

import (
	"cmp"
	"crypto/sha512"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
)

// packager follows a JavaScript package runner to the program it starts.
func (c *command) packager(name string, args []string) []string {
	const values = "-p --package -c --call -w --workspace --prefix --dir -C --cwd --filter --loglevel --registry --userconfig"
	if name == "corepack" {
		if len(args) == 0 {
			return nil
		}
		name, args = args[0], args[1:]
	}
	operands, flags := options(args, values)
	for _, f := range []string{"--prefix", "--dir", "-C", "--cwd"} {
		if d := flags[f]; d != "" {
			c.dir = c.abs(d)
		}
	}
	switch name {
	case "npx", "pnpx", "bunx":
		return c.execute(name, operands, flags)
	}
	if len(operands) == 0 {
		return nil
	}
	verb, rest := operands[0], operands[1:]
	switch verb {
	case "exec", "x", "dlx":
		operands, more := options(rest, values)
		for k, v := range more {
			flags[k] = v
		}
		return c.execute(name+" "+verb, operands, flags)
	case "run", "run-script":
		rest, _ = options(rest, values)
		if len(rest) == 0 {
			return nil
		}
		verb, rest = rest[0], rest[1:]
	case "start", "test":
	default:
		if name == "npm" {
			c.later("npm " + verb + " chooses what runs")
			return nil
		}
		if bin := c.localProgram(verb); bin != "" && !c.hasScript(verb) {
			return c.runFile(bin, rest)
		}
	}
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	return c.packageScript(c.dir, verb, rest)
}

func (c *command) hasScript(name string) bool {
	p, _, ok := readPackage(c.dir)
	return ok && p.Scripts[name] != ""
}

// packageScript follows a line under "scripts" of the nearest package.json.
func (c *command) packageScript(dir, name string, args []string) []string {
	var p manifest
	var file string
	found := false
	upward(dir, func(d string) bool {
		p, file, found = readPackage(d)
		if found {
			c.dir = d
		}
		return found
	})
	line := p.Scripts[name]
	if line == "" && name == "start" && isFile(filepath.Join(c.dir, "server.js")) {
		line = "node server.js"
	}
	if !found || line == "" {
		c.later("no package script " + clip(name))
		return nil
	}
	c.files = append(c.files, file)
	if slices.ContainsFunc(args, func(a string) bool { w, ok := words(a); return !ok || len(w) != 1 || w[0] != a }) {
		c.later("a package script gets arguments for its shell")
		return nil
	}
	if p.Scripts["pre"+name] != "" {
		c.unpinned("package script pre" + clip(name) + " runs first")
	}
	if sh, err := c.find("sh"); err == nil {
		c.launchers = append(c.launchers, sh)
	}
	if first, _, _ := strings.Cut(strings.TrimSpace(line), " "); !strings.Contains(first, "/") {
		if bin := c.localProgram(first); bin != "" {
			line = bin + strings.TrimPrefix(strings.TrimSpace(line), first)
		}
	}
	return c.line(strings.Join(append([]string{line}, args...), " "))
}

// execute follows npx and its kin: a package here, a global one, one that npx
// keeps; else the one that it will fetch.
func (c *command) execute(runner string, operands []string, flags map[string]string) []string {
	spec := cmp.Or(flags["--package"], flags["-p"])
	if line := cmp.Or(flags["--call"], flags["-c"]); line != "" {
		c.later(runner + " -c: a shell line chooses what runs")
		return nil
	}
	if len(operands) == 0 {
		return nil
	}
	command, args := operands[0], operands[1:]
	if spec == "" {
		spec, command = command, ""
	}
	name, version := splitSpec(spec)
	if command == "" && version == "" { // a command of that name comes before a package
		if bin := c.localProgram(name); bin != "" && !strings.Contains(runner, "dlx") && runner != "pnpx" {
			if lockBeside(filepath.Dir(filepath.Dir(filepath.Dir(bin)))) == "" {
				c.unpinned(runner + ": " + clip(spec) + " is here without a lockfile")
			}
			return c.runFile(bin, args)
		}
	}
	exact := version != "" && version[0] >= '0' && version[0] <= '9' && !strings.ContainsAny(version, "xX* |<>~^")
	for _, dir := range c.packageFolders(runner, spec) {
		d := filepath.Join(dir, "node_modules", name)
		p, file, ok := readPackage(d)
		if !ok || exact && p.Version != version {
			continue
		}
		bin := p.program(d, cmp.Or(command, unscoped(name)))
		if bin == "" {
			continue
		}
		c.files = append(c.files, file)
		if !exact && (version != "" || lockBeside(dir) == "") {
			c.unpinned(runner + ": " + clip(spec) + " is chosen at each start")
		}
		return c.runFile(bin, args)
	}
	c.later(runner + ": " + clip(spec) + " is fetched when it starts")
	return nil
}

// packageFolders are the folders whose node_modules a runner looks into, in its
// order (libnpmexec).
func (c *command) packageFolders(runner, spec string) (dirs []string) {
	if !strings.Contains(runner, "dlx") && runner != "pnpx" {
		upward(c.dir, func(d string) bool { dirs = append(dirs, d); return false })
	}
	if runner == "npx" || strings.HasPrefix(runner, "npm") {
		if exe, err := c.find("node"); err == nil {
			dirs = append(dirs, filepath.Join(filepath.Dir(filepath.Dir(real(exe))), "lib"))
		}
		kept := c.getenv("npm_config_cache")
		if kept == "" && c.getenv("HOME") != "" {
			kept = filepath.Join(c.getenv("HOME"), ".npm")
		}
		if kept != "" {
			h := sha512.Sum512([]byte(spec))
			dirs = append(dirs, filepath.Join(kept, "_npx", hex.EncodeToString(h[:])[:16]))
		}
	}
	return dirs
}

// runFile executes a package's program, which has a first line naming node.
func (c *command) runFile(file string, args []string) []string {
	if executable(file) {
		return append([]string{file}, args...)
	}
	return append([]string{"node", file}, args...)
}

// localProgram is what node_modules/.bin here or above calls name.
func (c *command) localProgram(name string) (file string) {
	upward(c.dir, func(d string) bool {
		p := filepath.Join(d, "node_modules/.bin", name)
		if executable(p) {
			file = p
		}
		return file != ""
	})
	return file
}

// splitSpec takes "@scope/name@version" apart.
func splitSpec(spec string) (name, version string) {
	if i := strings.LastIndexByte(spec, '@'); i > 0 {
		return spec[:i], spec[i+1:]
	}
	return spec, ""
}

// bun runs a file, a package script, or a package.
func (c *command) bun(args []string) []string {
	c.kind = bun
	const values = "-r --preload --cwd -c --config --env-file --port --conditions"
	operands, flags := options(args, values)
	if d := flags["--cwd"]; d != "" {
		c.dir = c.abs(d)
	}
	if f := filepath.Join(c.dir, "bunfig.toml"); isFile(f) {
		c.config = append(c.config, f)
	}
	if len(operands) == 0 {
		return nil
	}
	if operands[0] == "x" {
		c.launched()
		return c.execute("bun x", operands[1:], flags)
	}
	if operands[0] == "run" {
		if operands, _ = options(operands[1:], values); len(operands) == 0 {
			return nil
		}
	}
	if p := c.module(c.abs(operands[0])); isFile(p) {
		c.entry = p
		return nil
	}
	c.launched()
	return c.packageScript(c.dir, operands[0], operands[1:])
}

// deno runs a file or an address.
func (c *command) deno(args []string) []string {
	c.kind = deno
	const values = "-c --config --import-map --lock --cert -L --log-level --location --seed --env-file --preload --port --host"
	operands, flags := options(args, values)
	if len(operands) > 0 && slices.Contains([]string{"run", "serve", "x"}, operands[0]) {
		var more map[string]string
		operands, more = options(operands[1:], values)
		for k, v := range more {
			flags[k] = v
		}
	} else if len(operands) > 0 && !isFile(c.abs(operands[0])) {
		c.launched()
		c.later("deno " + clip(operands[0]) + " chooses what runs")
		return nil
	}
	for _, f := range []string{flags["-c"], flags["--config"], flags["--import-map"], "deno.json", "deno.jsonc"} {
		if p := c.abs(f); f != "" && isFile(p) {
			c.config = append(c.config, p)
		}
	}
	if len(operands) == 0 {
		return nil
	}
	if strings.Contains(operands[0], ":") && !isFile(c.abs(operands[0])) {
		c.later("deno fetches " + clip(operands[0]))
		return nil
	}
	c.entry = c.abs(operands[0])
	return nil
}
