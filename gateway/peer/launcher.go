package peer

import (
	"path"
	"slices"
	"strings"
)

// launches says whether a program merely starts another for somebody: then the
// run belongs to whoever started it. exe is the path of its executable, args
// its command line; both are the program's own words, and a lie changes a name,
// never an authority.
func launches(exe string, args []string) bool {
	name := path.Base(strings.TrimSuffix(exe, " (deleted)"))
	switch {
	case slices.Contains(wrappers, name):
		return true
	case slices.Contains(shells, name):
		return commandString(args)
	case name == "busybox" || name == "toybox": // one file, many names
		if len(args) == 0 {
			return false
		}
		applet, rest := path.Base(args[0]), args
		if applet == name && len(args) > 1 {
			applet, rest = path.Base(args[1]), args[1:]
		}
		applet = strings.TrimPrefix(applet, "-")
		return slices.Contains(wrappers, applet) || slices.Contains(shells, applet) && commandString(rest)
	case slices.Contains(runtimes, strings.TrimRight(name, "0123456789.")):
		return runsPackage(args)
	}
	return false
}

var (
	shells   = []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "ksh93", "mksh", "yash", "fish", "csh", "tcsh", "rbash"}
	wrappers = []string{"env", "npx", "npm", "pnpm", "yarn", "bunx", "uv", "uvx", "pipx", "nohup", "nice", "ionice", "setsid", "timeout",
		"git", "stdbuf", "chrt", "taskset", "setpriv", "sudo", "doas", "tini", "dumb-init", "bwrap", "unshare", "xargs"}
	runtimes = []string{"node", "bun", "deno", "python"}
	// packagers are scripts of a runtime that start a package's program.
	packagers = []string{"npx", "npm", "npx-cli", "npm-cli", "pnpm", "pnpx", "yarn", "yarnpkg", "bunx", "corepack", "uvx", "pipx"}
)

// commandString says whether a shell was started with -c (alone, or among other
// letters as in -lc) before its first operand.
func commandString(args []string) bool {
	if len(args) == 0 {
		return false
	}
	for i := 1; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--" || a == "-" || len(a) < 2 || a[0] != '-' && a[0] != '+':
			return false
		case a == "--command" || strings.HasPrefix(a, "--command="): // fish
			return true
		case a == "--rcfile" || a == "--init-file" || a == "--emulate":
			i++
		case strings.HasPrefix(a, "--"):
		case a[0] == '-' && strings.Contains(a[1:], "c"):
			return true
		case strings.HasSuffix(a, "o") || strings.HasSuffix(a, "O"):
			i++ // -o pipefail, +O extglob
		}
	}
	return false
}

// runsPackage says whether a runtime executes a package runner: as its script,
// or by the title that npm writes over its own command line.
func runsPackage(args []string) bool {
	if len(args) == 0 {
		return false
	}
	if title, _, ok := strings.Cut(args[0], " "); ok && slices.Contains(packagers, title) {
		return true
	}
	if slices.Contains(packagers, path.Base(args[0])) {
		return true
	}
	for _, a := range args[1:] {
		if strings.HasPrefix(a, "-") {
			continue
		}
		script := path.Base(a)
		for _, ext := range []string{".js", ".cjs", ".mjs", ".py"} {
			script = strings.TrimSuffix(script, ext)
		}
		return slices.Contains(packagers, script) || path.Base(args[0]) == "bun" && a == "x"
	}
	return false
}
