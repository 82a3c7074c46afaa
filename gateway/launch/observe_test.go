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
		"lib/dep.js": "", "dep.py": "", "package.json": `{"name":"x","scripts":{"start":"node server.js"}}`, "package-lock.json": "{}", "pyproject.toml": "",
		"launch.sh": "#!/bin/sh\nnode server.js\n",
	}
	for name, text := range script {
		files[name] = text
	}
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o755)); err != nil {
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
	a, err := Observe(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(exe), os.WriteFile(exe, []byte("rebuilt"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Changed(); err != nil || !slices.Equal(got, []string{exe}) && !slices.Equal(got, []string{"server"}) {
		t.Errorf("changed %q, %v", got, err)
	}
	again, err := Observe(p)
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
	if r, err := Observe(p); !errors.Is(err, peer.ErrGone) {
		t.Errorf("%+v, %v", r, err)
	}
}
