package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A gateway under its own uid has its data where that user's lie and its sockets in one folder of the system, which the
// user whom it serves may enter and nothing else: 0710, of the gateway's uid and the served user's group. The sockets
// are 0660, operator.addr is 0640.

// Served is the home of a gateway that runs under its own uid for another user.
func (h Home) Served() Home {
	h.runtime, h.served = []string{systemRuntime}, true
	return h
}

// IsServed says whether the sockets are for another user than the gateway's own.
func (h Home) IsServed() bool { return h.served }

// Owner says whose gateway may have its sockets in dir, as a client must know before it believes what it finds there:
// our own user's, if the folder is private; or another user's, if nobody but root could have put the folder there.
func Owner(dir string) (uid int, err error) {
	st, err := folder(dir)
	if err != nil {
		return 0, err
	}
	if int(st.Uid) == os.Geteuid() {
		return int(st.Uid), owned("check folder", dir, st)
	}
	if err := closed("check folder", dir, st, 0o710); err != nil {
		return 0, err
	}
	if err := rootAbove(filepath.Dir(filepath.Clean(dir))); err != nil {
		return 0, fmt.Errorf("check folder %s: owner is uid %d, not %d, and %w", dir, st.Uid, os.Geteuid(), err)
	}
	return int(st.Uid), nil
}

// rootAbove refuses dir unless root alone may change what is in it and above it.
func rootAbove(dir string) error {
	for {
		st, err := folder(dir)
		if err != nil {
			return err
		}
		if st.Uid != 0 || uint32(st.Mode)&0o022 != 0 {
			return fmt.Errorf("%s is not root's alone: %w", dir, ErrNotPrivate)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
}

// makeServed makes dir, which the served user's group may enter, or checks what whoever set the gateway up has made.
func makeServed(dir string) error {
	err := os.Mkdir(dir, 0o710)
	if err == nil {
		err = os.Chmod(dir, 0o710) // the umask took the group's part
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make folder: %w; its maker is the service manager, or root: owner this user, the served user's group, mode 0710", err)
	}
	return checkServed(dir)
}

// checkServed accepts a folder of ours that others may at most enter by their group.
func checkServed(dir string) error {
	st, err := folder(dir)
	if err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("check folder %s: owner is uid %d, not %d: %w", dir, st.Uid, os.Geteuid(), ErrNotPrivate)
	}
	if err := closed("check folder", dir, st, 0o710); err != nil {
		return err
	}
	return steady(filepath.Dir(dir))
}

// closed refuses a mode that has more than most.
func closed(what, path string, st *unix.Stat_t, most uint32) error {
	if perm := uint32(st.Mode) & 0o7777; perm&^most != 0 {
		return fmt.Errorf("%s %s: mode %04o is open to others: %w", what, path, perm, ErrNotPrivate)
	}
	return nil
}
