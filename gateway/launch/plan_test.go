package launch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// world is a folder with programs that are never executed, on a PATH of its own.
type world struct {
	t   testing.TB
	dir string // the project
	env []string
}

func newWorld(t testing.TB, files map[string]string) *world {
	t.Helper()
	top := real(t.TempDir())
	w := &world{t, filepath.Join(top, "proj"), []string{"PATH=" + filepath.Join(top, "bin"), "HOME=" + filepath.Join(top, "home")}}
	for _, p := range []string{"node", "env", "sh", "bash", "python3.11", "java", "ruby", "perl", "deno", "bun", "docker", "podman", "go", "make",
		"nice", "timeout", "uv", "uvx", "pipx", "poetry", "busybox", "server", "dotnet", "php", "tini"} {
		w.exe("../bin/"+p, "\x7fELF "+p)
	}
	w.link("../bin/python3", "python3.11")
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for p, text := range files {
		if strings.HasPrefix(text, "#!") {
			w.exe(p, text)
		} else if to, ok := strings.CutPrefix(text, "-> "); ok {
			w.link(p, to)
		} else {
			w.write(p, text)
		}
	}
	return w
}

func (w *world) write(path, text string) { w.put(path, text, 0o644) }
func (w *world) exe(path, text string)   { w.put(path, text, 0o755) }

func (w *world) put(path, text string, mode os.FileMode) {
	w.t.Helper()
	p := filepath.Join(w.dir, path)
	text = strings.ReplaceAll(text, "BIN", filepath.Join(filepath.Dir(w.dir), "bin"))
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), mode)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) link(path, to string) {
	w.t.Helper()
	p := filepath.Join(w.dir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.Symlink(to, p)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) plan(argv ...string) Record {
	w.t.Helper()
	r, err := new(Measurer).Plan(argv, w.dir, w.env)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// short is a path without the world's folder.
func (w *world) short(path string) string {
	return strings.ReplaceAll(path, filepath.Dir(w.dir)+"/", "../")
}

const nodeLine = "#!BIN/env node\n"

func project() map[string]string {
	return map[string]string{
		"package.json":      `{"name":"inventory","main":"dist","scripts":{"start":"node dist/server.js","dev":"nodemon dist/server.js","odd":"node $X","tool":"tool --port 1","prestart":"x"}}`,
		"package-lock.json": "{}", "yarn.lock": "#",
		"dist/server.js": "1", "dist/index.js": "2", "dist/pre.js": "3", "start.sh": "#!BIN/sh\nexec node dist/server.js\n", "run.js": nodeLine,
		"nodemon.json":                   "{}",
		"node_modules/tool/package.json": `{"name":"tool","version":"1.2.3","bin":{"tool":"cli.js"}}`,
		"node_modules/tool/cli.js":       nodeLine, "node_modules/.bin/tool": "-> ../tool/cli.js",
		"node_modules/@me/srv/package.json": `{"name":"@me/srv","version":"0.1.0","bin":"bin/s.js"}`, "node_modules/@me/srv/bin/s.js": nodeLine,
		"node_modules/@me/srv/yarn.lock":      "not ours",
		"node_modules/nodemon/bin/nodemon.js": nodeLine,
		"node_modules/.bin/nodemon":           "-> ../nodemon/bin/nodemon.js",
		"py/server.py":                        "1", "py/pyproject.toml": "", "py/uv.lock": "", "py/app/__main__.py": "1", "py/app/__init__.py": "",
		"py/.venv/pyvenv.cfg": "home = /usr/bin\nversion = 3.11.9\n",
		"py/.venv/bin/python": "-> ../../../../bin/python3.11",

		"py/.venv/lib/python3.11/site-packages/dep/__main__.py": "1",
		"app.jar": "PK", "lib/a.jar": "PK", "rb/Gemfile.lock": "", "rb/Gemfile": "", "rb/s.rb": "1", "rs/Cargo.lock": "", "rs/target/release/srv": "#!BIN/server\n",
		"deno/deno.json": "{}", "deno/deno.lock": "{}", "deno/s.ts": "1",
		"../bin/npx": "#!BIN/env node\n", "../bin/npm": "#!BIN/env node\n", "../bin/pnpm": "#!BIN/env node\n", "../bin/yarn": "#!BIN/env node\n",
		"../lib/node_modules/glob/package.json": `{"name":"glob","version":"9.0.0","bin":"g.js"}`, "../lib/node_modules/glob/g.js": nodeLine,
		"node_modules/bare-pkg/b.js": nodeLine, "node_modules/.bin/bare": "-> ../bare-pkg/b.js",
		"../home/.npm/_npx/25d876703c343f94/package-lock.json": "{}", "../home/.npm/_npx/25d876703c343f94/node_modules/cached/c.js": nodeLine,
		"../home/.npm/_npx/25d876703c343f94/node_modules/cached/package.json": `{"name":"cached","version":"1.0.0","bin":{"c":"c.js"}}`,
	}
}

// TestPlan follows command lines to the code that acts. Columns: command (words
// apart by spaces, one with spaces after "|"), executable, entry, lockfile,
// launchers, and a word of the reason for what is not pinned ("!": deferred).
func TestPlan(t *testing.T) {
	w := newWorld(t, project())
	w.exe("py/.venv/bin/srv", "#!"+w.dir+"/py/.venv/bin/python\n")
	for _, row := range []string{
		"node dist/server.js; ../bin/node; dist/server.js; package-lock.json; -; -",
		"node dist/server; ../bin/node; dist/server.js; package-lock.json; -; -",
		"node .; ../bin/node; dist/index.js; package-lock.json; -; -",
		"node --inspect --require ./dist/pre.js -C dev dist/server.js --flag; ../bin/node; dist/server.js; package-lock.json; -; -",
		"node -e 1; ../bin/node; -; package-lock.json; -; -",
		"./run.js; ../bin/node; run.js; package-lock.json; ../bin/env; -",
		"env A=b -u C node dist/server.js; ../bin/node; dist/server.js; package-lock.json; ../bin/env; -",
		"env -S|node dist/server.js; ../bin/node; dist/server.js; package-lock.json; ../bin/env; -",
		"sh -c|node dist/server.js; ../bin/node; dist/server.js; package-lock.json; ../bin/sh; -",
		"bash -lc|cd dist && exec node 'server.js'; ../bin/node; server.js; ../proj/package-lock.json; ../bin/bash; -",
		"sh -c|node $X; ../bin/sh; -; -; ../bin/sh; !shell line",
		"sh -c|node dist/server.js | tee log; ../bin/sh; -; -; ../bin/sh; !shell line",
		"./start.sh; ../bin/sh; start.sh; -; ../bin/sh; !start.sh",
		"sh start.sh; ../bin/sh; start.sh; -; ../bin/sh; !start.sh",
		"nice -n 5 timeout -k 1 60 node dist/server.js; ../bin/node; dist/server.js; package-lock.json; ../bin/nice ../bin/timeout; -",
		"tini -- node dist/server.js; ../bin/node; dist/server.js; package-lock.json; ../bin/tini; -",
		"npm start; ../bin/node; dist/server.js; package-lock.json; ../bin/npm ../bin/sh; prestart",
		"npm run start -- --x; ../bin/node; dist/server.js; package-lock.json; ../bin/npm ../bin/sh; prestart",
		"npm run odd; ../bin/npm; -; -; ../bin/npm ../bin/sh; !shell line",
		"npm run none; ../bin/npm; -; -; ../bin/npm; !no package script",
		"yarn tool; ../bin/node; node_modules/tool/cli.js; package-lock.json; ../bin/yarn ../bin/sh ../bin/env; -",
		"pnpm run dev; ../bin/node; dist/server.js; package-lock.json; ../bin/pnpm ../bin/sh ../bin/env ../bin/node node_modules/.bin/nodemon; -",
		"node_modules/.bin/nodemon dist/server.js; ../bin/node; dist/server.js; package-lock.json; ../bin/env ../bin/node node_modules/.bin/nodemon; -",
		"npx tool; ../bin/node; node_modules/tool/cli.js; package-lock.json; ../bin/npx ../bin/env; -",
		"npx -y tool@1.2.3 --x; ../bin/node; node_modules/tool/cli.js; package-lock.json; ../bin/npx ../bin/env; -",
		"npx -y tool@1.2.4; ../bin/npx; -; -; ../bin/npx; !fetched",
		"npx -y tool@latest; ../bin/node; node_modules/tool/cli.js; package-lock.json; ../bin/npx ../bin/env; chosen at each start",
		"npx -y @me/srv; ../bin/node; node_modules/@me/srv/bin/s.js; package-lock.json; ../bin/npx ../bin/env; -",
		"npx glob; ../bin/node; ../lib/node_modules/glob/g.js; -; ../bin/npx ../bin/env; chosen at each start",
		"npx -y unknown@latest; ../bin/npx; -; -; ../bin/npx; !fetched",
		"npx cached@1.0.0; ../bin/node; ../home/.npm/_npx/25d876703c343f94/node_modules/cached/c.js; ../home/.npm/_npx/25d876703c343f94/package-lock.json; ../bin/npx ../bin/env; -",
		"npx -p tool@1.2.3 other; ../bin/node; node_modules/tool/cli.js; package-lock.json; ../bin/npx ../bin/env; -",
		"npx bare; ../bin/node; node_modules/bare-pkg/b.js; package-lock.json; ../bin/npx ../bin/env; -",
		"node --watch dist/server.js; ../bin/node; dist/server.js; package-lock.json; ../bin/node; -",
		"npm exec -- tool; ../bin/node; node_modules/tool/cli.js; package-lock.json; ../bin/npm ../bin/env; -",
		"pnpm dlx tool; ../bin/pnpm; -; -; ../bin/pnpm; !fetched",
		"bun x tool; ../bin/node; node_modules/tool/cli.js; package-lock.json; ../bin/bun ../bin/env; -",
		"bun run dist/server.js; ../bin/bun; dist/server.js; package-lock.json; -; -",
		"bun start; ../bin/node; dist/server.js; package-lock.json; ../bin/bun ../bin/sh; prestart",
		"deno run -A --lock deno/deno.lock deno/s.ts; ../bin/deno; deno/s.ts; deno/deno.lock; -; -",
		"deno run npm:tool; ../bin/deno; -; -; -; !fetches",
		"python3 py/server.py; ../bin/python3; py/server.py; py/uv.lock; -; -",
		"py/.venv/bin/python -u py/server.py; py/.venv/bin/python; py/server.py; py/uv.lock; -; -",
		"py/.venv/bin/srv; py/.venv/bin/python; py/.venv/bin/srv; py/uv.lock; -; -",
		"py/.venv/bin/python -m dep; py/.venv/bin/python; py/.venv/lib/python3.11/site-packages/dep/__main__.py; py/uv.lock; -; -",
		"sh -c|cd py && python3 -um app; ../bin/python3; app/__main__.py; uv.lock; ../bin/sh; -",
		"python3 -m nowhere; ../bin/python3; -; -; -; not where",
		"python3 -c 1; ../bin/python3; -; -; -; -",
		"uv run --directory py srv; py/.venv/bin/python; .venv/bin/srv; uv.lock; ../bin/uv; -",
		"uv run --directory py server.py; py/.venv/bin/python; server.py; uv.lock; ../bin/uv; -",
		"uvx tool; ../bin/uvx; -; -; ../bin/uvx; !without a lock",
		"pipx run tool; ../bin/pipx; -; -; ../bin/pipx; !without a lock",
		"poetry run x; ../bin/poetry; -; -; ../bin/poetry; !environment",
		"java -Xmx1g -jar app.jar; ../bin/java; app.jar; -; -; -",
		"java -cp app.jar:lib/a.jar Main; ../bin/java; app.jar; -; -; -",
		"java @args Main; ../bin/java; -; -; -; from a file",
		"ruby rb/s.rb; ../bin/ruby; rb/s.rb; rb/Gemfile.lock; -; -",
		"perl -e 1; ../bin/perl; -; -; -; -",
		"server --stdio; ../bin/server; ../bin/server; -; -; -",
		"rs/target/release/srv; ../bin/server; ../bin/server; -; -; -",
		"go run ./cmd/x; ../bin/go; ../bin/go; -; ../bin/go; !chooses",
		"make serve; ../bin/make; ../bin/make; -; ../bin/make; !chooses",
	} {
		col := strings.Split(row, "; ")
		first, rest, spaced := strings.Cut(col[0], "|")
		argv := strings.Fields(first)
		if spaced {
			argv = append(argv, rest)
		}
		t.Run(col[0], func(t *testing.T) {
			w.t = t
			r := w.plan(argv...)
			var launchers []string
			for _, a := range r.Launchers {
				launchers = append(launchers, w.short(a.Path))
			}
			exe := strings.TrimPrefix(w.short(absolute(r.WorkingDirectory, r.Code.Exe)), "../proj/")
			for i, got := range []string{exe, w.short(r.Code.Entry), w.short(r.Code.Lockfile), strings.Join(launchers, " ")} {
				if got == "" {
					got = "-"
				}
				if got != col[i+1] {
					t.Errorf("column %d: %q, want %q", i+1, got, col[i+1])
				}
			}
			reasons := strings.Join(r.Unpinned, "; ")
			want, deferred := strings.CutPrefix(col[5], "!")
			if r.Deferred != deferred || want == "-" && reasons != "" || want != "-" && !strings.Contains(reasons, want) {
				t.Errorf("deferred %v, reasons %q, want %q", r.Deferred, reasons, col[5])
			}
			if r.Code.Entry != "" && !strings.HasPrefix(r.Code.EntryDigest, "sha256:") {
				t.Errorf("entry digest %q", r.Code.EntryDigest)
			}
			if diff := r.Agrees(w.plan(argv...)); len(diff) > 0 {
				t.Errorf("two plans differ in %q", diff)
			}
		})
	}
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func TestPlanFiles(t *testing.T) {
	w := newWorld(t, project())
	r := w.plan("node", "-r", "./dist/pre.js", ".")
	if got := paths(r.Code.Files); !slices.Equal(got, []string{"dist/pre.js", "package.json", "yarn.lock"}) {
		t.Errorf("files %q", got)
	}
	r = w.plan("node_modules/.bin/nodemon", "dist/server.js")
	if got := paths(r.Code.Config); !slices.Equal(got, []string{"nodemon.json"}) {
		t.Errorf("config %q", got)
	}
	w.env = append(w.env, "NODE_OPTIONS=--require="+w.dir+"/dist/pre.js")
	if got := paths(w.plan("node", "dist/server.js").Code.Files); !slices.Contains(got, "dist/pre.js") {
		t.Errorf("preload of the environment missing: %q", got)
	}
	r = w.plan("java", "-javaagent:lib/a.jar=x", "-jar", "app.jar")
	if got := paths(r.Code.Files); !slices.Equal(got, []string{"lib/a.jar"}) {
		t.Errorf("agent %q", got)
	}
	if r := w.plan("py/.venv/bin/python", "py/server.py"); r.Code.Runtime != "python 3.11.9" {
		t.Errorf("runtime %q", r.Code.Runtime)
	}
}

func paths(as []Artifact) (out []string) {
	for _, a := range as {
		out = append(out, a.Path)
	}
	return out
}

func TestPlanRefuses(t *testing.T) {
	w := newWorld(t, nil)
	w.write("plain", "no program")
	for _, argv := range [][]string{nil, {""}, {"nowhere"}, {"./plain"}, {"./none"}, {"."}, {"env", "nowhere"}, {"node\x00"}} {
		if r, err := new(Measurer).Plan(argv, w.dir, w.env); err == nil {
			t.Errorf("%q: %+v", argv, r)
		}
	}
	for _, dir := range []string{"", "relative", "/nowhere/at/all", w.dir + "/plain"} {
		if _, err := new(Measurer).Plan([]string{"node"}, dir, w.env); err == nil {
			t.Errorf("planned in %q", dir)
		}
	}
}

// A chain that never ends is cut, not followed.
func TestPlanLoops(t *testing.T) {
	w := newWorld(t, map[string]string{"package.json": `{"scripts":{"start":"npm start"}}`, "../bin/npm": "#!BIN/env node\n"})
	w.exe("a", "#!"+w.dir+"/b\n")
	w.exe("b", "#!"+w.dir+"/a\n")
	for _, argv := range [][]string{{"./a"}, {"npm", "start"}} {
		if r := w.plan(argv...); !r.Deferred {
			t.Errorf("%q: %+v", argv, r.Code)
		}
	}
	w.link("node_modules/x", "../node_modules")
	w.link("main", "main")
	if _, err := new(Measurer).Plan([]string{"./main"}, w.dir, w.env); err == nil {
		t.Error("a link to itself is a program")
	}
}

// A pipe, a device, a huge or unreadable file in the place of an artifact is a
// reason, and nothing waits for it.
func TestPlanHostileArtifacts(t *testing.T) {
	w := newWorld(t, nil)
	if err := unix.Mkfifo(filepath.Join(w.dir, "pipe.js"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.write("huge.js", "")
	if err := os.Truncate(filepath.Join(w.dir, "huge.js"), fileMax+1); err != nil {
		t.Fatal(err)
	}
	w.link("zero.js", "/dev/zero")
	for name, want := range map[string]string{"pipe.js": "no regular file", "huge.js": "larger", "zero.js": "no regular file", "gone.js": "no such file"} {
		start := time.Now()
		r := w.plan("node", name)
		if r.Code.EntryDigest != Unpinned || !strings.Contains(strings.Join(r.Unpinned, ";"), want) {
			t.Errorf("%s: %q, %q", name, r.Code.EntryDigest, r.Unpinned)
		}
		if d := time.Since(start); d > time.Minute {
			t.Errorf("%s took %v", name, d)
		}
	}
}

func TestImage(t *testing.T) {
	w := newWorld(t, nil)
	const pinned = "ghcr.io/x/y@sha256:9e4c1b2d8f3a6d0000000000000000000000000000000000000000000000171a"
	for line, want := range map[string]string{
		"docker run -i --rm " + pinned:                                             pinned,
		"docker run -it --name n -e A=b -eC=d --env=E -v /a:/b -w /x img:1 --flag": "img:1",
		"docker --context c container run -p 1:2 -itu 0 img":                       "img",
		"podman run --pull always --tls-verify img:latest sh -c x":                 "img:latest",
		"docker run -- img": "img",
		"docker exec x sh":  "", "docker run": "", "docker compose up": "", "docker run --rm -i": "", "docker": "",
	} {
		r := w.plan(strings.Fields(line)...)
		if r.Code.Image != want {
			t.Errorf("%s: image %q, want %q", line, r.Code.Image, want)
		}
		if (r.Code.Image == pinned) != (len(r.Unpinned) == 0) || (r.Code.Image == pinned) != (r.Code.ImageDigest != Unpinned && r.Code.ImageDigest != "") {
			t.Errorf("%s: digest %q, unpinned %q", line, r.Code.ImageDigest, r.Unpinned)
		}
	}
}

func TestWords(t *testing.T) {
	for s, want := range map[string]string{"a b": "a|b", " a  'b c' \"d\"e ": "a|b c|de", "": "", "''": "", "a ''": "a|"} {
		got, ok := words(s)
		if !ok || strings.Join(got, "|") != want {
			t.Errorf("%q: %q %v", s, got, ok)
		}
	}
	for _, s := range []string{"a $b", "a;b", "a|b", "a&b", "`a`", "a\\ b", "a > b", "'a", "\"$a\"", "a\nb", "~/x", "a*", "{a,b}", "#"} {
		if got, ok := words(s); ok {
			t.Errorf("%q is plain: %q", s, got)
		}
	}
}

func FuzzPlan(f *testing.F) {
	w := newWorld(f, project())
	for _, s := range []string{"node dist/server.js", "npx -y tool@1", "docker run -i x", "sh -c 'a'", "env -S", "python3 -m app", "java -cp a: Main", "node -r", "npm run -- --", "docker run -e", "uv run --with"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		argv := strings.Split(line, " ")
		r, err := new(Measurer).Plan(argv, w.dir, w.env)
		if err != nil {
			return
		}
		if r.Code.ExeDigest == "" || r.WorkingDirectory == "" || r.Unpinned == nil {
			t.Errorf("%q: %+v", argv, r)
		}
		if r.Deferred && len(r.Unpinned) == 0 {
			t.Errorf("%q: deferred without a reason", argv)
		}
	})
}
