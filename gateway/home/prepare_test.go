package home

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func at(t *testing.T, path string) Home {
	t.Helper()
	h, err := Find(env(EnvHome, path))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// keepUmask undoes what Prepare sets.
func keepUmask(t *testing.T) {
	old := unix.Umask(0o022)
	unix.Umask(old)
	t.Cleanup(func() { unix.Umask(old) })
}

func TestPrepare(t *testing.T) {
	keepUmask(t)
	unix.Umask(0)
	base := dir(t, 0o700)
	h := Home{data: base + "/a/data", config: base + "/b/config", runtime: []string{base + "/c/run", base + "/unused"}}
	release, err := h.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"a", "a/data", "b", "b/config", "c", "c/run"} {
		st, err := os.Lstat(filepath.Join(base, d))
		if err != nil || st.Mode() != os.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", d, st, err)
		}
	}
	if _, err := os.Lstat(base + "/unused"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder nobody uses: %v", err)
	}
	if mask := unix.Umask(0o077); mask != 0o077 {
		t.Errorf("umask %o", mask)
	}
	_, err = h.Prepare()
	if !errors.Is(err, ErrRunning) {
		t.Errorf("second spd: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	release, err = h.Prepare()
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	release()
	if _, err := (Home{}).Prepare(); err == nil {
		t.Error("zero home prepared")
	}
}

// I21: a folder that isn't private, whichever of the three.
func TestPrepareRefuses(t *testing.T) {
	keepUmask(t)
	for name, spoil := range map[string]func(dir string) error{
		"open to all":   func(d string) error { return errors.Join(os.Mkdir(d, 0o700), os.Chmod(d, 0o777)) },
		"group reads":   func(d string) error { return errors.Join(os.Mkdir(d, 0o700), os.Chmod(d, 0o740)) },
		"others enter":  func(d string) error { return errors.Join(os.Mkdir(d, 0o700), os.Chmod(d, 0o701)) },
		"symlink":       func(d string) error { return errors.Join(os.Mkdir(d+"-real", 0o700), os.Symlink(d+"-real", d)) },
		"dead symlink":  func(d string) error { return os.Symlink("/nowhere", d) },
		"file":          func(d string) error { return os.WriteFile(d, nil, 0o600) },
		"another owner": func(d string) error { return errors.Join(os.Mkdir(d, 0o700), os.Chown(d, 1000, 1000)) },
	} {
		for _, which := range []string{"data", "config", "run"} {
			t.Run(name+" "+which, func(t *testing.T) {
				if name == "another owner" && os.Geteuid() != 0 {
					t.Skip("root: needed to give a folder away")
				}
				base := dir(t, 0o700)
				if err := spoil(filepath.Join(base, which)); err != nil {
					t.Fatal(err)
				}
				h := Home{data: base + "/data", config: base + "/config", runtime: []string{base + "/run"}}
				release, err := h.Prepare()
				if err == nil {
					release()
				}
				if !errors.Is(err, ErrNotPrivate) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// A private folder in one where everybody may rename can be exchanged.
func TestPrepareBelowOpenFolder(t *testing.T) {
	keepUmask(t)
	base := dir(t, 0o777)
	for _, path := range []string{base + "/h", base + "/sub/h"} {
		release, err := at(t, path).Prepare()
		if err == nil {
			release()
		}
		if !errors.Is(err, ErrNotPrivate) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := os.Chmod(base, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	release, err := at(t, base+"/h").Prepare()
	if err != nil {
		t.Fatalf("sticky: %v", err)
	}
	release()
}

func TestLockSymlink(t *testing.T) {
	keepUmask(t)
	base := dir(t, 0o700)
	if err := os.Symlink(base+"/elsewhere", base+"/spd.lock"); err != nil {
		t.Fatal(err)
	}
	release, err := at(t, base).Prepare()
	if err == nil {
		release()
		t.Error("lock taken through a symlink")
	}
	if _, err := os.Lstat(base + "/elsewhere"); err == nil {
		t.Error("file made through a symlink")
	}
}

func TestOperatorAddr(t *testing.T) {
	h := at(t, dir(t, 0o700))
	if _, err := h.OperatorAddr(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none published: %v", err)
	}
	for _, addr := range []string{"@OLD", "@NEW", h.OperatorSocket()} {
		if err := h.PublishOperator(addr); err != nil {
			t.Fatal(err)
		}
		if got, err := h.OperatorAddr(); got != addr || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, addr)
		}
	}
	st, err := os.Lstat(h.Data() + "/operator.addr")
	if err != nil || st.Mode() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if left, _ := filepath.Glob(h.Data() + "/*"); len(left) != 1 {
		t.Errorf("left behind: %q", left)
	}
	for _, addr := range []string{"", "@", "relative", "@a\nb", "@a\x00", "@\xff", "/" + string(make([]byte, 300))} {
		if err := h.PublishOperator(addr); err == nil {
			t.Errorf("%q published", addr)
		}
	}
}

func TestOperatorAddrRefuses(t *testing.T) {
	write := func(mode os.FileMode, text string) func(string) error {
		return func(p string) error { return errors.Join(os.WriteFile(p, []byte(text), 0o600), os.Chmod(p, mode)) }
	}
	for name, tc := range map[string]struct {
		spoil func(path string) error
		want  error
	}{
		"readable by all": {write(0o644, "@A\n"), ErrNotPrivate},
		"symlink": {func(p string) error {
			return errors.Join(os.WriteFile(p+".real", []byte("@A\n"), 0o600), os.Symlink(p+".real", p))
		}, ErrNotPrivate},
		"folder": {func(p string) error { return os.Mkdir(p, 0o700) }, ErrNotPrivate},
		"fifo":   {func(p string) error { return unix.Mkfifo(p, 0o600) }, ErrNotPrivate},
		"another owner": {func(p string) error {
			return errors.Join(os.WriteFile(p, []byte("@A\n"), 0o600), os.Chown(p, 1000, 1000))
		}, ErrNotPrivate},
		"open folder": {func(p string) error {
			return errors.Join(os.WriteFile(p, []byte("@A\n"), 0o600), os.Chmod(filepath.Dir(p), 0o755))
		}, ErrNotPrivate},
		"no newline": {write(0o600, "@A"), ErrBadAddr},
		"two lines":  {write(0o600, "@A\n@B\n"), ErrBadAddr},
		"empty":      {write(0o600, ""), ErrBadAddr},
		"a web page": {write(0o600, "http://localhost\n"), ErrBadAddr},
		"too long":   {write(0o600, "@"+string(make([]byte, 1<<20))+"\n"), ErrBadAddr},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "another owner" && os.Geteuid() != 0 {
				t.Skip("root: needed to give a file away")
			}
			h := at(t, dir(t, 0o700))
			if err := tc.spoil(h.Data() + "/operator.addr"); err != nil {
				t.Fatal(err)
			}
			if got, err := h.OperatorAddr(); !errors.Is(err, tc.want) || got != "" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
