package home

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A served home lets the served user's group enter its sockets' folder and read the operators' address, and no more.
func TestServed(t *testing.T) {
	keepUmask(t)
	base := dir(t, 0o700)
	h := at(t, base).Served()
	if !h.IsServed() || h.Runtime() != systemRuntime || h.Data() != base {
		t.Fatalf("served home: %+v", h)
	}
	h.runtime = []string{filepath.Join(base, "run")}
	release, err := h.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if err := h.PublishOperator("@NAME"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{"run": os.ModeDir | 0o710, "run/operator.addr": 0o640} {
		if st, err := os.Lstat(filepath.Join(base, path)); err != nil || st.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", path, st.Mode(), err, want)
		}
	}
	for _, mode := range []os.FileMode{0o730, 0o750, 0o711, 0o777} {
		if err := os.Chmod(h.Runtime(), mode); err != nil {
			t.Fatal(err)
		}
		if err := h.PublishOperator("@NAME"); !errors.Is(err, ErrNotPrivate) {
			t.Errorf("published in a folder of mode %o: %v", mode, err)
		}
	}
}

// Who may have its sockets in a folder: ourselves in a private one; another only where root alone could have put it.
func TestOwner(t *testing.T) {
	keepUmask(t)
	unix.Umask(0)
	own := dir(t, 0o700)
	if uid, err := Owner(own); err != nil || uid != os.Geteuid() {
		t.Errorf("own folder: %d, %v", uid, err)
	}
	if err := os.Chmod(own, 0o710); err != nil {
		t.Fatal(err)
	}
	if _, err := Owner(own); !errors.Is(err, ErrNotPrivate) {
		t.Errorf("own folder that a group may enter: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("root: needed to give a folder away")
	}
	theirs := filepath.Join(own, "theirs")
	if err := errors.Join(os.Mkdir(theirs, 0o710), os.Chown(theirs, 1000, 1000)); err != nil {
		t.Fatal(err)
	}
	if _, err := Owner(theirs); !errors.Is(err, ErrNotPrivate) { // the temporary folder above is everybody's
		t.Errorf("another's folder below an open one: %v", err)
	}
}
