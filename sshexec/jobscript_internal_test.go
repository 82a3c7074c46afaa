package sshexec

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A host whose disk is full: a job that can't be kept does not run, and one whose disk fills while it runs still leaves its
// exit status, whose room was taken at its start.
func TestJobOnAFullDisk(t *testing.T) {
	if os.Getuid() != 0 || exec.Command("unshare", "-m", "true").Run() != nil {
		if os.Getenv("SALLYPORT_REAL") == "require" && os.Getuid() == 0 {
			t.Fatal("unshare -m is not permitted")
		}
		t.Skip("mount namespace: needs root")
	}
	resident, data := jobLimits("id")
	line := func(script string) string {
		return jobLine("start", "id", "MARK", 0, jobSupervisor, resident, data, "sh", "-c", script)
	}
	status := jobLine("status", "id", "MARK", 0, 0, 100)
	// $1 is the home, on a disk of its own of 64 KiB.
	const disk = `mount --make-rprivate / && mount -t tmpfs -o size=64k none "$1" && HOME=$1 && export HOME && mkdir -p ~/.local/state/sallyport/jobs || exit 9; `
	for name, tt := range map[string]struct{ script, want string }{
		"full before":  {disk + `head -c 100000 /dev/zero >~/fill 2>/dev/null; ` + line("echo ran >&2; exit 3") + ` </dev/null; ` + status + ` </dev/null`, "MARK none"},
		"full at last": {disk + line(`head -c 100000 /dev/zero >~/fill 2>/dev/null; cat /dev/zero 2>/dev/null | head -c 100000; exit 5`) + ` </dev/null; ` + `i=0; until ` + status + ` </dev/null | grep -q "MARK ended 5" || [ $i -ge 600 ]; do sleep 0.1; i=$((i+1)); done; ` + status + ` </dev/null | head -n 1`, "MARK ended 5"},
	} {
		home := filepath.Join(t.TempDir(), "home")
		if err := os.Mkdir(home, 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("unshare", "-m", "sh", "-c", tt.script, "sh", home).CombinedOutput()
		if !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: %v %.2000q", name, err, out)
		}
	}
}
