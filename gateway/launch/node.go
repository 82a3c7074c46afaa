package launch

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// nodeValues are options of node (22) whose value is the next word.
const nodeValues = "-r --require --import --loader --experimental-loader -C --conditions --env-file --env-file-if-exists --title" +
	" --inspect-port --watch-path --watch-kill-signal --icu-data-dir --openssl-config --redirect-warnings --input-type --diagnostic-dir" +
	" --disable-warning --dns-result-order --heapsnapshot-signal --heap-prof-dir --cpu-prof-dir --max-http-header-size --report-dir" +
	" --report-directory --report-filename --report-signal --secure-heap --secure-heap-min --stack-trace-limit --unhandled-rejections" +
	" --tls-cipher-list --tls-keylog --trace-event-categories --trace-event-file-pattern --localstorage-file --run -e --eval -p --print -pe"

// packagers are package runners of JavaScript.
var packagers = []string{"npx", "npm", "pnpm", "pnpx", "yarn", "yarnpkg", "bunx", "corepack"}

func (c *command) node(args []string) []string {
	c.kind = node
	if title, _, ok := strings.Cut(c.argv[0], " "); ok && slices.Contains(packagers, title) { // npm writes over its arguments
		c.launched()
		c.later(title + " chooses what runs")
		return nil
	}
	operands, flags := options(args, nodeValues)
	c.preloads(args)
	c.preloads(strings.Fields(c.getenv("NODE_OPTIONS")))
	if name, ok := flags["--run"]; ok {
		c.launched()
		return c.packageScript(c.dir, name, operands)
	}
	for _, f := range []string{"-e", "--eval", "-p", "--print", "-pe"} {
		if _, ok := flags[f]; ok {
			return nil // the code is the command line
		}
	}
	if len(operands) == 0 {
		return nil
	}
	script := c.abs(operands[0])
	rest := operands[1:]
	name := strings.TrimSuffix(plain(script), "-cli")
	if slices.Contains(packagers, name) {
		c.launchers = append(c.launchers, c.exe, script)
		return c.packager(name, rest)
	}
	switch name {
	case "nodemon", "tsx", "ts-node", "ts-node-dev", "ts-node-esm", "pm2-runtime", "forever", "esno", "swc-node":
		c.launchers = append(c.launchers, c.exe, script)
		return c.supervisor(name, rest)
	}
	_, watch := flags["--watch"]
	_, paths := flags["--watch-path"]
	if watch || paths { // it runs the script in a child
		c.launched()
	}
	c.entry = c.module(script)
	return nil
}

// plain is a script's name without the extension of a module.
func plain(path string) string {
	name := filepath.Base(path)
	for _, ext := range []string{".js", ".cjs", ".mjs", ".py"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}

// preloads are the files that node reads before the entry.
func (c *command) preloads(args []string) {
	for i, a := range args {
		name, value, inline := strings.Cut(a, "=")
		if !slices.Contains([]string{"-r", "--require", "--import", "--loader", "--experimental-loader"}, name) {
			continue
		}
		if !inline && i+1 < len(args) {
			value = args[i+1]
		}
		value = strings.TrimPrefix(value, "file://")
		if strings.HasPrefix(value, ".") || strings.HasPrefix(value, "/") {
			if p := c.module(c.abs(value)); isFile(p) {
				c.files = append(c.files, p)
			}
		}
	}
}

// module is the file that node loads for a path: itself, with an extension, or
// what a folder's package.json names.
func (c *command) module(path string) string {
	for range stepsMax {
		for _, ext := range []string{"", ".js", ".json", ".node", ".mjs", ".cjs", ".ts"} {
			if isFile(path + ext) {
				return path + ext
			}
		}
		if !isDir(path) {
			return path
		}
		p, file, ok := readPackage(path)
		if ok {
			c.files = append(c.files, file)
		}
		if !ok || p.Main == "" {
			return filepath.Join(path, "index.js")
		}
		path = filepath.Join(path, p.Main)
	}
	return path
}

// supervisor follows a program that keeps a script running.
func (c *command) supervisor(name string, args []string) []string {
	const values = "-w --watch -e --ext -i --ignore -x --exec -d --delay -s --signal -C --config --tsconfig -P --project -r --require --import -n --name --node-args"
	operands, flags := options(args, values)
	for _, f := range []string{"nodemon.json", "ecosystem.config.js", "ecosystem.config.cjs", "tsconfig.json"} {
		if p := filepath.Join(c.dir, f); isFile(p) && (f == "nodemon.json") == (name == "nodemon") {
			c.config = append(c.config, p)
		}
	}
	if x, ok := flags["--exec"]; ok && x != "" {
		return c.line(x)
	}
	if x, ok := flags["-x"]; ok && x != "" {
		return c.line(x)
	}
	if len(operands) > 0 && operands[0] == "watch" && name == "tsx" {
		operands = operands[1:]
	}
	if len(operands) == 0 {
		c.entry = c.module(c.dir)
		return nil
	}
	script := c.abs(operands[0])
	if name == "nodemon" && strings.HasSuffix(script, ".py") {
		return slices.Concat([]string{"python"}, operands)
	}
	c.entry = c.module(script)
	if exe, err := c.find("node"); err == nil {
		c.exe = exe
	}
	return nil
}

// manifest is what we read of a package.json.
type manifest struct {
	Name    string            `json:"name"`
	Version string            `json:"version"`
	Main    string            `json:"main"`
	Bin     jsontext.Value    `json:"bin"`
	Scripts map[string]string `json:"scripts"`
}

func readPackage(dir string) (p manifest, file string, ok bool) {
	file = filepath.Join(dir, "package.json")
	b, err := readFile(file)
	if err != nil {
		return manifest{}, file, false
	}
	return p, file, json.Unmarshal(b, &p, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) == nil
}

// program is the file that a package's command has, "" if there is none.
func (p manifest) program(dir, name string) string {
	var one string
	if json.Unmarshal(p.Bin, &one) == nil && one != "" {
		return filepath.Join(dir, one)
	}
	var many map[string]string
	if json.Unmarshal(p.Bin, &many) != nil {
		return ""
	}
	if f, ok := many[name]; ok {
		return filepath.Join(dir, f)
	}
	if f, ok := many[unscoped(p.Name)]; ok {
		return filepath.Join(dir, f)
	}
	if len(many) == 1 {
		for _, f := range many {
			return filepath.Join(dir, f)
		}
	}
	return ""
}

func unscoped(name string) string {
	if _, short, ok := strings.Cut(name, "/"); ok && strings.HasPrefix(name, "@") {
		return short
	}
	return name
}
