package launch

import (
	"fmt"
	"slices"
	"strings"
)

// Agrees names what differs between a plan r and what was observed of it: the
// names of the record's fields, and "environment NAME". Nothing: what runs is
// what was planned. What a plan could not pin has been said in its Unpinned and
// is no difference; what was pinned and can't be seen any more is one.
func (r Record) Agrees(o Record) []string {
	var out []string
	differs := func(name, planned, observed string) {
		if planned != observed {
			out = append(out, name)
		}
	}
	pinned := func(name, planned, observed string) {
		if planned != Unpinned {
			differs(name, planned, observed)
		}
	}
	a, b := r.Code, o.Code
	if !r.Deferred {
		differs("workingDirectory", r.WorkingDirectory, o.WorkingDirectory)
		pinned("exeDigest", a.ExeDigest, b.ExeDigest)
		differs("entry", a.Entry, b.Entry)
		pinned("entryDigest", a.EntryDigest, b.EntryDigest)
		differs("lockfile", a.Lockfile, b.Lockfile)
		pinned("lockfileDigest", a.LockfileDigest, b.LockfileDigest)
		pinned("treeDigest", a.TreeDigest, b.TreeDigest)
		differs("runtime", a.Runtime, b.Runtime)
		differs("image", a.Image, b.Image)
		pinned("imageDigest", a.ImageDigest, b.ImageDigest)
	}
	out = append(out, artifacts("files", a.Files, b.Files, !r.Deferred && len(r.Launchers) == 0)...)
	out = append(out, artifacts("config", a.Config, b.Config, !r.Deferred && len(r.Launchers) == 0)...)
	out = append(out, artifacts("launchers", r.Launchers, o.Launchers, false)...)
	return append(out, variables(r, o)...)
}

// artifacts compares by path. all: each must be in both; else only those that
// are, since a launcher that executes another program leaves no trace of its own.
func artifacts(what string, planned, observed []Artifact, all bool) (out []string) {
	seen := make(map[string]string)
	for _, a := range observed {
		seen[a.Path] = a.Digest
	}
	for _, a := range planned {
		d, ok := seen[a.Path]
		delete(seen, a.Path)
		if ok && a.Digest != Unpinned && d != a.Digest || !ok && all {
			out = append(out, fmt.Sprintf("%s %s", what, a.Path))
		}
	}
	if all {
		for path := range seen {
			out = append(out, fmt.Sprintf("%s %s", what, path))
		}
		slices.Sort(out)
	}
	return out
}

// loaders are variables that put other code into a program, or before it.
var loaders = []string{"NODE_OPTIONS", "NODE_PATH", "BUN_OPTIONS", "DENO_DIR", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE",
	"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH", "RUBYOPT", "RUBYLIB", "PERL5OPT", "PERL5LIB", "PHPRC",
	"PHP_INI_SCAN_DIR", "BASH_ENV", "ENV", "DOTNET_STARTUP_HOOKS", "GCONV_PATH", "OPENSSL_CONF"}

func isLoader(name string) bool {
	return slices.Contains(loaders, name) || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_")
}

// setByLaunchers are what shells and package runners change for what they start.
func setByLaunchers(name string) bool {
	return slices.Contains([]string{"_", "PWD", "OLDPWD", "SHLVL", "PATH", "INIT_CWD", "NODE", "COLOR", "EDITOR", "VIRTUAL_ENV", "UV",
		"UV_RUN_RECURSION_DEPTH", "PROJECT_CWD", "BERRY_BIN_FOLDER"}, name) || strings.HasPrefix(name, "npm_")
}

// variables compares the environments. Behind launchers variables may have been
// added and their own changed, but none that loads code.
func variables(r, o Record) (out []string) {
	direct := len(r.Launchers) == 0 && len(o.Launchers) == 0 && !r.Deferred
	planned, observed := byName(r.Environment), byName(o.Environment)
	for _, v := range r.Environment {
		h, ok := observed[v.Name]
		if same := ok && h == planned[v.Name]; !same && (direct || isLoader(v.Name) || !setByLaunchers(v.Name)) {
			out = append(out, "environment "+v.Name)
		}
	}
	for _, v := range o.Environment {
		if _, ok := planned[v.Name]; !ok && (direct || isLoader(v.Name)) {
			out = append(out, "environment "+v.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func byName(vs []Variable) map[string]string {
	m := make(map[string]string, len(vs))
	for _, v := range vs {
		m[v.Name] += v.Hash + ";"
	}
	return m
}

// Sums are the record's digests as `shasum -a 256` prints them: entry and
// lockfile first, then the executable, files, config and launchers. What has no
// digest has no line.
func (r Record) Sums() string {
	var b strings.Builder
	seen := make(map[string]bool)
	c := r.Code
	all := slices.Concat([]Artifact{{c.Entry, c.EntryDigest}, {c.Lockfile, c.LockfileDigest}, {c.Exe, c.ExeDigest}}, c.Files, c.Config, r.Launchers)
	for _, a := range all {
		if hex, ok := strings.CutPrefix(a.Digest, "sha256:"); ok && !seen[a.Path] {
			fmt.Fprintf(&b, "%s  %s\n", hex, a.Path)
			seen[a.Path] = true
		}
	}
	return b.String()
}
