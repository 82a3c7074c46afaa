package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"sallyport/gateway/home"
)

// fake puts files below a root of the test's own.
func fake(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestLookMachine(t *testing.T) {
	m := LookMachine(fake(t, map[string]string{
		"proc/sys/kernel/randomize_va_space": "0\n", "proc/sys/kernel/yama/ptrace_scope": "2\n",
		"proc/sys/kernel/core_pattern": "|/bin/x %p\n", "proc/self/status": "Name:\tx\nUmask:\t0027\n",
	}))
	if m.ASLR != 0 || m.Yama != 2 || m.CorePattern != "|/bin/x %p" || m.Umask != 0o027 {
		t.Errorf("%+v", m)
	}
	if m := LookMachine(t.TempDir()); m.ASLR != 0 || m.Yama != -1 || m.Umask != -1 {
		t.Errorf("nothing to read: %+v", m)
	}
	if m := LookMachine(""); !m.Pidfd || m.Umask < 0 {
		t.Errorf("this machine: %+v", m)
	}
}

const mounts = `22 1 253:0 / / rw,relatime shared:1 - ext4 /dev/mapper/root rw
30 22 0:25 / /tmp rw - tmpfs tmpfs rw
31 22 8:3 / /home rw - ext4 /dev/sda3 rw
32 31 0:40 / /home/a\040b rw - btrfs /dev/mapper/data rw
33 22 0:41 / /net rw - nfs4 server:/x rw
34 22 0:42 / /over rw - overlay overlay rw
`

func TestMountOf(t *testing.T) {
	for path, want := range map[string]string{"/": "253:0", "/tmp": "0:25", "/tmp/x": "0:25", "/tmpx": "253:0", "/home/me/.local": "8:3", "/home/a b/c": "0:40", "/net/x": "0:41"} {
		if m, ok := mountOf(mounts, path); !ok || m.device != want {
			t.Errorf("%s: %+v %v, want %s", path, m, ok, want)
		}
	}
	for _, table := range []string{"", "x", "1 2 3 4 5 -", "nonsense - \n"} {
		if m, ok := mountOf(table, "/x"); ok {
			t.Errorf("%q: %+v", table, m)
		}
	}
}

func TestEncryption(t *testing.T) {
	root := fake(t, map[string]string{
		"sys/dev/block/253:0/dm/uuid":             "LVM-x\n",
		"sys/dev/block/253:0/slaves/dm-1/dm/uuid": "CRYPT-LUKS2-x\n",
		"sys/dev/block/8:3/size":                  "1",
		"sys/class/block/data/dm/uuid":            "CRYPT-PLAIN-x",
		"sys/dev/block/9:0/slaves/sda/size":       "1",
		"sys/dev/block/9:0/slaves/dm-1/dm/uuid":   "CRYPT-LUKS2-x\n",
	})
	for _, c := range []struct {
		m    mount
		want Encryption
	}{
		{mount{"253:0", "ext4", "/dev/mapper/root"}, Encrypted},
		{mount{"8:3", "ext4", "/dev/sda3"}, Plain},
		{mount{"0:40", "btrfs", "/dev/mapper/data"}, Encrypted},
		{mount{"0:42", "overlay", "overlay"}, EncryptionUnknown},
		{mount{"9:0", "ext4", "/dev/md0"}, Plain}, // half of a mirror in the clear
		{mount{"0:43", "ecryptfs", "/x"}, Encrypted},
		{mount{"7:7", "ext4", "/dev/gone"}, EncryptionUnknown},
	} {
		if e := encryption(root, c.m); e != c.want {
			t.Errorf("%+v: %v, want %v", c.m, e, c.want)
		}
	}
}

func TestLookDisk(t *testing.T) {
	dir := t.TempDir()
	d := LookDisk("", filepath.Join(dir, "not", "there", "yet"))
	if !d.Known || d.Free == 0 || d.Type == "" {
		t.Errorf("%+v", d)
	}
}

// Each fault of a folder is made, found, and mended by what is said.
func TestFolders(t *testing.T) {
	env := func(dir string, more map[string]string) func(string) string {
		return func(name string) string {
			if v, ok := more[name]; ok {
				return v
			}
			return map[string]string{home.EnvHome: dir}[name]
		}
	}
	look := func(t *testing.T, getenv func(string) string) []Finding {
		h, err := home.Find(getenv)
		if err != nil {
			t.Fatal(err)
		}
		return Folders(h, getenv)
	}
	for name, c := range map[string]struct {
		spoil func(dir string) error
		want  State
		mend  string
	}{
		"private":        {func(dir string) error { return os.Mkdir(dir, 0o700) }, OK, ""},
		"not there":      {func(string) error { return nil }, OK, ""},
		"open to others": {func(dir string) error { return errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755)) }, Wrong, "chmod 700 "},
		"a link":         {func(dir string) error { return os.Symlink(filepath.Dir(dir), dir) }, Wrong, "put a folder of your own"},
		"a file":         {func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, Wrong, "move "},
		"another's":      {func(dir string) error { return mkdirAs(dir, 1000) }, Wrong, "it is another user's"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "another's" && os.Geteuid() != 0 {
				t.Skip("root: only root makes another user's folder")
			}
			dir := filepath.Join(t.TempDir(), "h")
			if err := c.spoil(dir); err != nil {
				t.Fatal(err)
			}
			f := one(t, look(t, env(dir, nil)), "folder.data")
			if f.State != c.want || (c.mend == "") != (f.Mend == "") || len(f.Mend) < len(c.mend) || f.Mend[:len(c.mend)] != c.mend {
				t.Errorf("%+v", f)
			}
		})
	}

	user := t.TempDir()
	open, private := filepath.Join(user, "open"), filepath.Join(user, "private")
	for dir, mode := range map[string]os.FileMode{open: 0o755, private: 0o700} {
		if err := os.Mkdir(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]State{open: Wrong, private: OK, filepath.Join(user, "gone"): Wrong} {
		if f := one(t, look(t, env("", map[string]string{"HOME": user, "XDG_RUNTIME_DIR": dir})), "XDG_RUNTIME_DIR"); f.State != want {
			t.Errorf("%s: %+v", dir, f)
		}
	}
	if f := one(t, look(t, env("", map[string]string{"HOME": user})), "XDG_RUNTIME_DIR"); f.State == Wrong {
		t.Errorf("unset: %+v", f)
	}
}

func mkdirAs(dir string, uid int) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.Chown(dir, uid, uid)
}
