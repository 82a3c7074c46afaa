package launch

import (
	"path/filepath"
	"slices"
	"strings"
)

// program looks at one program: the command line that it executes or starts, or
// nil where the way ends.
func (c *command) program() (next []string) {
	name, args := base(c.exe), c.argv[1:]
	if c.runs && (name == "busybox" || name == "toybox" || name == "coreutils") {
		name = base(c.argv[0])
	}
	if slices.Contains(packagers, name) {
		c.launched()
		return c.packager(name, args)
	}
	if !c.runs {
		if via := shebang(c.exe); via != nil {
			return slices.Concat(via, []string{c.exe}, args)
		}
	}
	switch name {
	case "env":
		c.launched()
		return c.unwrapEnv(args)
	case "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "yash", "fish", "rbash":
		return c.shell(args)
	case "node", "nodejs":
		return c.node(args)
	case "bun":
		return c.bun(args)
	case "deno":
		return c.deno(args)
	case "python", "pythonw", "pypy":
		return c.python(args)
	case "java", "ruby", "perl", "php", "dotnet":
		return c.script(kind(name), args)
	case "uv", "uvx", "pipx", "poetry", "pipenv", "pdm", "rye", "hatch", "bundle":
		c.launched()
		return c.projectRunner(name, args)
	case "docker", "podman", "nerdctl":
		c.container(args)
		return nil
	}
	if w, ok := wrappers[name]; ok {
		c.launched()
		return w.unwrap(args)
	}
	c.entry = c.exe
	if slices.Contains(choosers, name) {
		c.launched()
		c.later(name + " chooses what runs while it starts")
	}
	return nil
}

// wrapper is a program that executes its operands: how many of its own come
// first, and which of its options take a value.
type wrapper struct {
	own    int
	values string // names of options, apart by spaces
}

var wrappers = map[string]wrapper{
	"nohup":     {},
	"setsid":    {},
	"nice":      {values: "-n --adjustment"},
	"ionice":    {values: "-c --class -n --classdata -p"},
	"timeout":   {own: 1, values: "-k --kill-after -s --signal"},
	"stdbuf":    {values: "-i --input -o --output -e --error"},
	"chrt":      {own: 1, values: "-T -P -D"},
	"taskset":   {own: 1},
	"setpriv":   {values: "--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits --pdeathsig"},
	"tini":      {values: "-p -e"},
	"dumb-init": {values: "-r --rewrite"},
	"time":      {values: "-f --format -o --output"},
}

func (w wrapper) unwrap(args []string) []string {
	args, _ = options(args, w.values)
	if len(args) <= w.own {
		return nil
	}
	return args[w.own:]
}

// choosers start something that only they know.
var choosers = []string{"make", "gmake", "just", "task", "mise", "asdf", "direnv", "xargs", "sudo", "doas", "su", "runuser",
	"systemd-run", "flatpak", "snap", "nix", "nix-shell", "conda", "mamba", "micromamba", "pixi", "devbox", "cargo", "go", "mvn",
	"gradle", "gradlew", "bazel", "lein", "sbt", "pm2", "supervisord", "corepack", "volta", "watchexec", "entr", "air", "unshare",
	"bwrap", "firejail", "script", "ssh", "tsh", "kubectl", "op", "doppler", "dotenv"}

// options splits flags from operands. values names the flags that take the next
// word, as "-n" or "--name"; "--name=x" and "-nx" are one word. What the flags
// said is returned by name, the last one for each.
func options(args []string, values string) (operands []string, flags map[string]string) {
	takes := strings.Fields(values)
	flags = make(map[string]string)
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return args[i+1:], flags
		}
		if len(a) < 2 || a[0] != '-' {
			return args[i:], flags
		}
		name, value, inline := strings.Cut(a, "=")
		if !inline && slices.Contains(takes, name) && i+1 < len(args) {
			i++
			value = args[i]
		}
		flags[name] = value
	}
	return nil, flags
}

// unwrapEnv reads env(1): assignments come before the command, and count.
func (c *command) unwrapEnv(args []string) []string {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "-i" || a == "-" || a == "--ignore-environment":
			c.env = nil
		case (a == "-u" || a == "--unset") && i+1 < len(args):
			i++
			c.env = slices.DeleteFunc(slices.Clone(c.env), func(v string) bool { return strings.HasPrefix(v, args[i]+"=") })
		case (a == "-C" || a == "--chdir") && i+1 < len(args):
			i++
			c.dir = c.abs(args[i])
		case strings.HasPrefix(a, "-S") || strings.HasPrefix(a, "--split-string"):
			line := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(a, "-S"), "--split-string"), "=")
			rest := args[i+1:]
			if line == "" && len(rest) > 0 {
				line, rest = rest[0], rest[1:]
			}
			words, ok := words(line)
			if !ok {
				c.later("env -S splits what can't be told before")
				return nil
			}
			return c.unwrapEnv(slices.Concat(words, rest))
		case a == "--" || strings.HasPrefix(a, "-"):
		case strings.Contains(a, "="):
			name, _, _ := strings.Cut(a, "=")
			c.env = append(slices.DeleteFunc(slices.Clone(c.env), func(v string) bool { return strings.HasPrefix(v, name+"=") }), a)
		default:
			return args[i:]
		}
	}
	return nil
}

// shell follows sh -c 'cd DIR && exec PROGRAM WORD…'. Anything less plain, and
// any script, is the shell's to decide while it runs.
func (c *command) shell(args []string) []string {
	c.kind = shell
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--rcfile" || a == "--init-file" || len(a) == 2 && (a[0] == '-' || a[0] == '+') && (a[1] == 'o' || a[1] == 'O'):
			i++
		case len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.Contains(a, "c") && i+1 < len(args):
			c.launched()
			return c.line(args[i+1])
		case len(a) > 1 && (a[0] == '-' || a[0] == '+'):
		default:
			c.launched()
			c.entry = c.abs(a)
			c.later("shell script " + filepath.Base(a) + " chooses what runs")
			return nil
		}
	}
	c.entry = c.exe
	return nil
}

// line reads one plain line of shell.
func (c *command) line(s string) []string {
	parts := strings.Split(s, "&&")
	for i, part := range parts {
		w, ok := words(part)
		switch {
		case !ok || len(w) == 0:
		case i < len(parts)-1 && w[0] == "cd" && len(w) == 2:
			c.dir = c.abs(w[1])
			continue
		case i == len(parts)-1:
			if w[0] == "exec" {
				w = w[1:]
			}
			if len(w) > 0 && !strings.Contains(w[0], "=") {
				c.kind = ""
				return w
			}
		}
		break
	}
	c.later("a shell line chooses what runs")
	return nil
}

// words splits a line that means nothing to a shell but words and quotes.
func words(s string) (out []string, ok bool) {
	var w strings.Builder
	var quote rune
	open := false // inside a word
	for _, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == '\'':
			w.WriteRune(r)
		case strings.ContainsRune("$`\\!", r) || quote == 0 && strings.ContainsRune("|&;<>()*?[]{}#~\n\r", r):
			return nil, false
		case quote != 0:
			w.WriteRune(r)
		case r == '\'' || r == '"':
			quote, open = r, true
		case r == ' ' || r == '\t':
			if open {
				out = append(out, w.String())
			}
			w.Reset()
			open = false
		default:
			w.WriteRune(r)
			open = true
		}
	}
	if open {
		out = append(out, w.String())
	}
	return out, quote == 0
}
