package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrNotPrivate is returned for a folder or file that others could read,
// write or exchange: a symlink, another owner, a mode that is too open.
var ErrNotPrivate = errors.New("not private")

// CheckPrivate accepts dir if it is a folder, no symlink, ours, and closed to
// group and others.
func CheckPrivate(dir string) error {
	st, err := folder(dir)
	if err != nil {
		return err
	}
	return owned("check folder", dir, st)
}

// folder looks at dir, which must be a folder and no symlink.
func folder(dir string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Clean(dir), &st); err != nil {
		return nil, fmt.Errorf("check folder: %w", &fs.PathError{Op: "lstat", Path: dir, Err: err})
	}
	switch uint32(st.Mode) & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFLNK:
		return nil, fmt.Errorf("check folder %s: is a symlink: %w", dir, ErrNotPrivate)
	default:
		return nil, fmt.Errorf("check folder %s: is no folder: %w", dir, ErrNotPrivate)
	}
	return &st, nil
}

// owned checks owner and mode of a file that is known by st.
func owned(what, path string, st *unix.Stat_t) error {
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s %s: owner is uid %d, not %d: %w", what, path, st.Uid, os.Geteuid(), ErrNotPrivate)
	}
	if perm := uint32(st.Mode) & 0o7777; perm&0o077 != 0 {
		return fmt.Errorf("%s %s: mode %04o is open to others: %w", what, path, perm, ErrNotPrivate)
	}
	return nil
}

// MakePrivate makes dir, and missing folders above it, 0700, and checks what it
// finds. A folder that exists is never changed: whoever opened it must close it.
func MakePrivate(dir string) error {
	dir = filepath.Clean(dir)
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := steady(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make folder: %w", err)
	}
	return CheckPrivate(dir)
}

// steady refuses a folder above ours in which everybody may rename: a private
// folder there could be exchanged for another.
func steady(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("check folder: %w", err)
	}
	for {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			return fmt.Errorf("check folder: %w", &fs.PathError{Op: "stat", Path: dir, Err: err})
		}
		if mode := uint32(st.Mode); mode&0o002 != 0 && mode&unix.S_ISVTX == 0 {
			return fmt.Errorf("check folder %s: everybody may rename in it: %w", dir, ErrNotPrivate)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
}
