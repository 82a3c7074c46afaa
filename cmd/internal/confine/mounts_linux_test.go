package confine

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// What is hidden has other names where its file system, or a part of it, is mounted twice.
func TestAliases(t *testing.T) {
	const info = `22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:5 / /proc rw - proc proc rw
30 22 0:40 /@home /home rw - btrfs /dev/sdb rw
31 22 0:40 / /mnt/all rw - btrfs /dev/sdb rw
32 22 0:40 /@home/u/.local /srv/a\040b rw shared:1 - btrfs /dev/sdb rw
33 22 0:40 /@home/u/.local/share/sallyport/audit /srv/log rw - btrfs /dev/sdb rw
34 22 0:40 /@home/u/.local/share/sally /srv/other rw - btrfs /dev/sdb rw
35 22 8:1 /run /var/run rw - ext4 /dev/sda1 rw
36 30 0:40 /@home /home rw - btrfs /dev/sdb rw
`
	got, err := aliases([]byte(info), []string{"/home/u/.local/share/sallyport", "/run/user/0/sallyport"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/home/u/.local/share/sallyport", "/mnt/all/@home/u/.local/share/sallyport", "/run/user/0/sallyport", "/srv/a b/share/sallyport", "/srv/log",
		"/var/run/user/0/sallyport"}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
}

// The kernel's word: a file below a hidden folder is out of reach by its second name too.
func TestHiddenByAnyName(t *testing.T) {
	if dir := os.Getenv("CONFINE_TEST_DIR"); dir != "" { // in a mount namespace of its own
		hidden, second := filepath.Join(dir, "a/hidden"), filepath.Join(dir, "b")
		if out, err := exec.Command("mount", "--bind", filepath.Join(dir, "a"), second).CombinedOutput(); err != nil {
			t.Skipf("mount: %v %s", err, out)
		}
		err := Exec("/bin/sh", []string{"sh", "-c", `cat "$1/hidden/secret"; cat "$1/open"; exit 0`, "sh", second}, os.Environ(), []string{hidden})
		t.Fatal(err)
	}
	if landlockABI() < 1 {
		t.Skip("landlock: this kernel has none")
	}
	for _, name := range []string{"unshare", "mount"} {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("SALLYPORT_REAL") == "require" {
				t.Fatal(err)
			}
			t.Skipf("%s: not installed", name)
		}
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"a/hidden", "b"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"a/hidden/secret": "SECRET", "a/open": "OPEN"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"--mount"}
	if os.Getuid() != 0 {
		args = append(args, "--user", "--map-root-user")
	}
	if err := exec.Command("unshare", append(slices.Clone(args), "true")...).Run(); err != nil {
		t.Skipf("unshare: no mount namespace here: %v", err)
	}
	cmd := exec.Command("unshare", append(args, os.Args[0], "-test.run", "^TestHiddenByAnyName$", "-test.v")...)
	cmd.Env = append(os.Environ(), "CONFINE_TEST_DIR="+dir)
	out, _ := cmd.CombinedOutput()
	switch {
	case bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("%s", out)
	case bytes.Contains(out, []byte("SECRET")), !bytes.Contains(out, []byte("OPEN")):
		t.Fatalf("%s", out)
	}
}
