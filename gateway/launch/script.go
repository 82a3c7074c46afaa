package launch

import (
	"path/filepath"
	"strings"
)

// scriptValues are the options of these runtimes that take the next word.
var scriptValues = map[kind]string{
	java: "-cp -classpath --class-path -p --module-path --add-modules --add-opens --add-exports --add-reads --upgrade-module-path --limit-modules --source",
	ruby: "-C -E -I -r -W", perl: "-I", php: "-c -d -z", dotnet: "--additionalprobingpath --fx-version --roll-forward",
}

// script finds the file that a runtime is given first.
func (c *command) script(k kind, args []string) []string {
	c.kind = k
	operands, flags := options(args, scriptValues[k])
	if k == java {
		c.java(args, operands, flags)
		return nil
	}
	for _, f := range []string{"-e", "-E", "-r"} {
		if _, ok := flags[f]; ok && (f == "-r") == (k == php) && len(f) == 2 && !(f == "-E" && k == ruby) {
			return nil // the code is the command line
		}
	}
	if len(operands) == 0 {
		return nil
	}
	if k == dotnet && !strings.HasSuffix(operands[0], ".dll") {
		c.launched()
		c.later("dotnet " + clip(operands[0]) + " chooses what runs")
		return nil
	}
	c.entry = c.abs(operands[0])
	return nil
}

// java runs an archive, or a class from a path of archives and folders.
func (c *command) java(args, operands []string, flags map[string]string) {
	for i, a := range args {
		if strings.HasPrefix(a, "@") {
			c.unpinned("java takes arguments from a file")
		}
		if agent, ok := strings.CutPrefix(a, "-javaagent:"); ok {
			agent, _, _ = strings.Cut(agent, "=")
			c.files = append(c.files, c.abs(agent))
		}
		if a == "-jar" && i+1 < len(args) {
			c.entry = c.abs(args[i+1])
			return
		}
	}
	var path string
	for _, f := range []string{"-cp", "-classpath", "--class-path"} {
		if v := flags[f]; v != "" {
			path = v
		}
	}
	if path == "" {
		path = c.getenv("CLASSPATH")
	}
	for _, p := range filepath.SplitList(path) {
		p = c.abs(p)
		switch {
		case strings.HasSuffix(p, "/*"):
			c.roots = append(c.roots, strings.TrimSuffix(p, "/*"))
		case isDir(p):
			c.roots = append(c.roots, p)
		case c.entry == "" && isFile(p):
			c.entry = p
		default:
			c.files = append(c.files, p)
		}
	}
	if len(operands) > 0 && strings.HasSuffix(operands[0], ".java") {
		c.entry = c.abs(operands[0])
	}
}

// flagsOnly are options of docker run and podman run without a value.
const flagsOnly = " -i --interactive -t --tty -d --detach -P --publish-all -q --quiet --rm --init --privileged --read-only --no-healthcheck" +
	" --oom-kill-disable --sig-proxy --disable-content-trust --replace --rmi --tls-verify --no-hosts --no-hostname --env-host --http-proxy" +
	" --passwd --read-only-tmpfs --use-api-socket --help "

// container names the image of a docker or podman run.
func (c *command) container(args []string) {
	c.entry = c.exe
	for len(args) > 0 && strings.HasPrefix(args[0], "-") { // options of docker itself
		skip := 1
		switch args[0] {
		case "-c", "--context", "--config", "-H", "--host", "-l", "--log-level", "--tlscacert", "--tlscert", "--tlskey", "--connection", "--url":
			skip = 2
		}
		args = args[min(skip, len(args)):]
	}
	if len(args) > 0 && args[0] == "container" {
		args = args[1:]
	}
	if len(args) == 0 || args[0] != "run" {
		c.unpinned("the container's code is not in its command")
		return
	}
	args = args[1:]
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		a := args[0]
		args = args[1:]
		if a == "--" {
			break
		}
		short := !strings.HasPrefix(a, "--")
		switch {
		case strings.Contains(a, "=") && !short, strings.Contains(flagsOnly, " "+a+" "):
		case short && len(a) > 2 && strings.Trim(a[1:], "itdPq") != "" && !strings.ContainsAny(a[len(a)-1:], "evpwuhlmca"):
		case short && len(a) > 2 && strings.Trim(a[1:], "itdPq") == "":
		case short && len(a) > 2 && strings.Trim(a[1:len(a)-1], "itdPq") != "": // -eNAME=x
		case len(args) > 0:
			args = args[1:]
		}
	}
	if len(args) == 0 {
		c.unpinned("no image in the command")
		return
	}
	c.image = args[0]
}
