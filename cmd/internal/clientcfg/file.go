package clientcfg

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	sizeLimit = 16 << 20 // of a configuration file; Claude Code's grows with its history
	linkLimit = 40       // symlinks in a row, as Linux has it

	// BackupSuffix ends the name of the copy of a file as it was before the last change, beside that file.
	BackupSuffix = ".before-sallyport"
)

// ErrChanged is returned by Write when somebody else wrote the file meanwhile.
var ErrChanged = errors.New("the file was changed by another program meanwhile")

// Change is what is to be done to one file. The zero Change does nothing.
type Change struct {
	Path     string      // the file itself, where the client's path is a link
	Key      string      // the place of our entry
	Old, New []byte      // Old is nil where there is no file yet
	mode     fs.FileMode // of the file; 0: none yet
	uid, gid int         // whose it is
}

// None says that the file is right as it is.
func (c Change) None() bool { return bytes.Equal(c.Old, c.New) }

// Backup is where Write leaves the file's old content; "" where there was no file.
func (c Change) Backup() string {
	if c.Old == nil {
		return ""
	}
	return c.Path + BackupSuffix
}

// read finds the file behind path and reads it.
func read(path string) (Change, error) {
	path, err := follow(path)
	if err != nil {
		return Change{}, err
	}
	// Without O_NONBLOCK a pipe in the file's place would hold us for ever.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Change{Path: path}, nil
	}
	if err != nil {
		return Change{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Change{}, err
	}
	if !info.Mode().IsRegular() {
		return Change{}, fmt.Errorf("read %s: it is no regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, sizeLimit+1))
	if err != nil {
		return Change{}, err
	}
	if len(b) > sizeLimit {
		return Change{}, fmt.Errorf("read %s: it holds more than %d bytes", path, sizeLimit)
	}
	if b == nil {
		b = []byte{}
	}
	c := Change{Path: path, Old: b, mode: info.Mode().Perm(), uid: -1, gid: -1}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		c.uid, c.gid = int(st.Uid), int(st.Gid)
	}
	return c, nil
}

// follow resolves the links that the last part of path is, also those that point to nothing yet.
func follow(path string) (string, error) {
	for range linkLimit {
		to, err := os.Readlink(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EINVAL) { // nothing, or no link
			return path, nil
		}
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", &fs.PathError{Op: "follow", Path: path, Err: unix.ELOOP}
}

// Write replaces the file as a whole and leaves its old content beside it. On error the file is as it was.
func (c Change) Write() error {
	if c.None() {
		return nil
	}
	mode := c.mode
	if c.Old == nil {
		mode = 0o600
		if err := os.MkdirAll(filepath.Dir(c.Path), 0o700); err != nil {
			return err
		}
	} else if err := c.replace(c.Backup(), c.Old, mode); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	if now, err := read(c.Path); err != nil {
		return err
	} else if (now.Old == nil) != (c.Old == nil) || !bytes.Equal(now.Old, c.Old) {
		return fmt.Errorf("write %s: %w", c.Path, ErrChanged)
	}
	return c.replace(c.Path, c.New, mode)
}

// replace puts b in the place of path at once. Whoever owned the file owns the new one.
func (c Change) replace(path string, b []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".sallyport-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if c.Old != nil && c.uid >= 0 && (c.uid != os.Geteuid() || c.gid != os.Getegid()) {
		if err := f.Chown(c.uid, c.gid); err != nil {
			return err
		}
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
