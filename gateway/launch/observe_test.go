package launch

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sallyport/gateway/peer"
)

// patience is how many times a fact is looked for.
const patience = 100_000

// real parts: a test that needs one skips without it, or fails where all are required.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	if os.Getenv("SALLYPORT_REAL") == "require" {
		t.Fatal(err)
	}
	t.Skip(program + ": not installed")
	return ""
}

// running is a program that said that it is up: it holds stdin open, and prints a
// line first.
type running struct {
	*exec.Cmd
	p *peer.Process
}

func start(t *testing.T, dir string, env []string, argv ...string) running {
	t.Helper()
	x := exec.Command(argv[0], argv[1:]...)
	x.Dir, x.Env, x.Stderr = dir, env, os.Stderr
	x.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := x.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := x.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		syscall.Kill(-x.Process.Pid, syscall.SIGKILL) // its own group
		x.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "up\n" {
		t.Fatalf("%q: said %q, %v", argv, line, err)
	}
	p, err := peer.Find(x.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return running{x, p}
}

// script is a server in each language: it says that it is up and waits for the
// end of its input.
var script = map[string]string{
	"server.js": "require('./lib/dep');console.log('up');process.stdin.resume();process.stdin.on('end',()=>process.exit())",
	"server.py": "import dep,sys\nprint('up',flush=True)\nsys.stdin.read()\n",
	"server.sh": "echo up\ncat\n",
}

func servers(t *testing.T) (dir string) {
	t.Helper()
	dir = real(t.TempDir())
	files := map[string]string{
		"lib/dep.js": "", "dep.py": "", "package.json": `{"name":"x","scripts":{"start":"node server.js"}}`, "package-lock.json": `{"name":"x","lockfileVersion":3,"packages":{"":{"name":"x"}}}`, "pyproject.toml": "",
		"launch.sh": "#!/bin/sh\nnode server.js\n",
	}
	for name, text := range script {
		files[name] = text
	}
	files["node_modules/tool/package.json"] = `{"name":"tool","version":"1.2.3","bin":{"tool":"cli.js"}}`
	files["node_modules/tool/cli.js"] = "#!/usr/bin/env node\n" + strings.Replace(files["server.js"], "./lib", "../../lib", 1)
	files["node_modules/.bin/.keep"], files[".venv/pyvenv.cfg"] = "", "home = /usr/bin\nversion = 3.0.1\ninclude-system-site-packages = false\n"
	files[".venv/bin/srv"] = "#!" + dir + "/.venv/bin/python\n" + strings.Replace(files["server.py"], "import dep,sys", "import sys", 1)
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"node_modules/.bin/tool": "../tool/cli.js", ".venv/bin/python": "/usr/bin/python3", "current": "."} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// What was planned is what is observed, for real programs started in real ways.
func TestObserveAgrees(t *testing.T) {
	for _, tc := range []struct {
		name  string
		needs []string
		argv  []string
		entry string
	}{
		{"node", []string{"node"}, []string{"node", "server.js"}, "server.js"},
		{"node through env", []string{"node"}, []string{"env", "node", "server.js"}, "server.js"},
		{"node below a shell", []string{"node"}, []string{"sh", "-c", "node server.js"}, "server.js"},
		{"node in place of a shell", []string{"node"}, []string{"sh", "-c", "exec node server.js"}, "server.js"},
		{"node below a script", []string{"node"}, []string{"./launch.sh"}, "server.js"},
		{"node below npm", []string{"node", "npm"}, []string{"npm", "start", "--silent"}, "server.js"},
		{"node below npx", []string{"node", "npx"}, []string{"npx", "--offline", "-y", "tool", "--x"}, "node_modules/tool/cli.js"},
		{"node below npm exec of a version", []string{"node", "npm"}, []string{"npm", "exec", "--offline", "-y", "tool@1.2.3"}, "node_modules/tool/cli.js"},
		{"node that watches", []string{"node"}, []string{"node", "--watch", "server.js"}, "server.js"},
		{"node through a link", []string{"node"}, []string{"node", "current/server.js"}, "server.js"},
		{"a program of a virtual environment", []string{"/usr/bin/python3"}, []string{".venv/bin/srv"}, ".venv/bin/srv"},
		{"python of a virtual environment", []string{"/usr/bin/python3"}, []string{".venv/bin/python", "-u", "server.py"}, "server.py"},
		{"python", []string{"/usr/bin/python3"}, []string{"/usr/bin/python3", "server.py"}, "server.py"},
		{"python as a module", []string{"/usr/bin/python3"}, []string{"/usr/bin/python3", "-m", "server"}, "server.py"},
		{"sh", []string{"sh"}, []string{"sh", "server.sh"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, n := range tc.needs {
				need(t, n)
			}
			dir := servers(t)
			env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PYTHONDONTWRITEBYTECODE=", "TOKEN=hunter2", "PYTHONNOUSERSITE=1"}
			m := &Measurer{Key: []byte("key")}
			plan, err := m.Plan(tc.argv, dir, env)
			if err != nil {
				t.Fatal(err)
			}
			x := start(t, dir, env, tc.argv...)
			var r Record
			for range patience { // until the launcher has started its child
				if r, err = m.Observe(x.p); err == nil && (r.Code.Entry == tc.entry || tc.entry == "") {
					break
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := plan.Agrees(r); len(diff) > 0 {
				t.Errorf("differs in %q:\nplanned  %+v %q\nobserved %+v %q", diff, plan.Code, plan.Unpinned, r.Code, r.Unpinned)
			}
			if tc.entry != "" && (r.Code.Entry != tc.entry || !strings.HasPrefix(r.Code.EntryDigest, "sha256:")) {
				t.Errorf("entry %q %q", r.Code.Entry, r.Code.EntryDigest)
			}
			if r.ProcessID == 0 || r.WorkingDirectory != dir {
				t.Errorf("process %d in %q", r.ProcessID, r.WorkingDirectory)
			}
			if r.ProcessID != x.Process.Pid && len(r.Launchers) == 0 {
				t.Errorf("it runs below another one, and there is no launcher")
			}
			if got, err := r.Changed(); err != nil || len(got) != 0 {
				t.Errorf("changed %q, %v", got, err)
			}
		})
	}
}

// M11, M12, M17: a rebuild changes what Changed says, and the next start's record.
func TestObserveRebuild(t *testing.T) {
	need(t, "node")
	dir := servers(t)
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=/nowhere"}
	var m Measurer
	x := start(t, dir, env, "node", "server.js")
	a, err := m.Observe(x.p)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/lib/dep.js", []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Changed(); err != nil || !slices.Equal(got, []string{"lib/dep.js"}) {
		t.Errorf("changed %q, %v", got, err)
	}
	if err := x.p.Same(); err != nil {
		t.Errorf("the process is unchanged: %v", err)
	}
	y := start(t, dir, env, "node", "server.js")
	b, err := m.Observe(y.p)
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Agrees(b); !slices.Equal(got, []string{"treeDigest"}) {
		t.Errorf("two starts differ in %q", got)
	}
	if a.ProcessID == b.ProcessID {
		t.Error("one process")
	}
}

// I06: the digest is the running image's, whatever lies at its path now.
func TestObserveReplacedFile(t *testing.T) {
	dir := real(t.TempDir())
	b, err := os.ReadFile(need(t, "cat"))
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "server")
	if err := os.WriteFile(exe, b, 0o755); err != nil {
		t.Fatal(err)
	}
	x := exec.Command(exe)
	in, err := x.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); x.Wait() })
	p, err := peer.Find(x.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	a, err := new(Measurer).Observe(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(exe), os.WriteFile(exe, []byte("rebuilt"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Changed(); err != nil || !slices.Equal(got, []string{exe}) && !slices.Equal(got, []string{"server"}) {
		t.Errorf("changed %q, %v", got, err)
	}
	again, err := new(Measurer).Observe(p)
	if err != nil {
		t.Fatal(err)
	}
	if again.Code.ExeDigest != a.Code.ExeDigest || again.Code.ExeDigest == "" {
		t.Errorf("digest %q, before %q", again.Code.ExeDigest, a.Code.ExeDigest)
	}
}

func TestObserveGone(t *testing.T) {
	x := exec.Command(need(t, "cat"))
	in, err := x.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := peer.Find(x.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	in.Close()
	if err := x.Wait(); err != nil {
		t.Fatal(err)
	}
	if r, err := new(Measurer).Observe(p); !errors.Is(err, peer.ErrGone) {
		t.Errorf("%+v, %v", r, err)
	}
}

// A process whose paths mean other files is described by what its kernel says
// alone: none of its paths is opened by name.
func TestObserveForeign(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("unshare: needs root")
	}
	unshare := need(t, "unshare")
	dir := servers(t)
	x := start(t, dir, []string{"PATH=/usr/bin:/bin", "TOKEN=hunter2"}, unshare, "--mount", "sh", "server.sh")
	r, err := (&Measurer{Key: []byte("key")}).Observe(x.p)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Unpinned) != 1 || !strings.Contains(r.Unpinned[0], "namespaces") || r.Code.EntryDigest != "" || r.Code.TreeDigest != "" ||
		!strings.HasPrefix(r.Code.ExeDigest, "sha256:") || r.ProcessID != x.Process.Pid {
		t.Errorf("%+v", r)
	}
	if got, err := r.Changed(); err != nil || len(got) != 0 {
		t.Errorf("changed %q, %v", got, err)
	}
	plan, err := new(Measurer).Plan([]string{"sh", "server.sh"}, dir, []string{"PATH=/usr/bin:/bin"})
	if err != nil {
		t.Fatal(err)
	}
	plan.Deferred = false
	if got := plan.Agrees(r); !slices.Contains(got, "entry") {
		t.Errorf("agrees but for %q", got)
	}
}

// One Measurer serves many at once, and gives all of them the same answer.
func TestMeasurerConcurrent(t *testing.T) {
	w := newWorld(t, project())
	m := &Measurer{Key: []byte("key")}
	want, err := m.Plan([]string{"node", "dist/server.js"}, w.dir, w.env)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan []string)
	for range 8 {
		go func() {
			r, err := m.Plan([]string{"node", "dist/server.js"}, w.dir, w.env)
			changed, err2 := want.Changed()
			if err := errors.Join(err, err2); err != nil {
				done <- []string{err.Error()}
				return
			}
			done <- append(want.Agrees(r), changed...)
		}()
	}
	for range 8 {
		if diff := <-done; len(diff) > 0 {
			t.Errorf("differs in %q", diff)
		}
	}
}
