package auditlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// disk is the part of the file system that may fail under a writer. After each call returns nil its effect is
// durable as far as it says.
type disk interface {
	create(path string) (segmentFile, error) // a new file, 0600; refuses one that is there; nothing is durable yet
	rename(from, to string) error            // not durable before syncDir
	remove(path string) error                // not durable before syncDir
	syncDir(path string) error               // names in path are durable
}

// segmentFile: Sync makes the written bytes and the length durable. Allocate lengthens the file from one size to
// another, by zeros that have their place on the disk: writing there cannot fail for want of space.
type segmentFile interface {
	io.WriterAt
	io.Closer
	Sync() error
	Stat() (fs.FileInfo, error)
	Allocate(from, to int64) error
	Truncate(size int64) error
}

type osDisk struct{}

type osFile struct{ *os.File }

func (f osFile) Sync() error { return datasync(f.File) }

func (f osFile) Allocate(from, to int64) error { return allocate(f.File, from, to) }

func (osDisk) create(path string) (segmentFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osDisk) remove(path string) error { return os.Remove(path) }

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// writeFile puts a small file in its place, whole and durable or not at all.
func writeFile(d disk, path string, b []byte) error {
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	f, err := d.create(tmp)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err == nil {
		err = d.rename(tmp, path)
	}
	if err == nil {
		err = d.syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// writeZeros lengthens a file where the file system cannot allocate by itself.
func writeZeros(f *os.File, from, to int64) error {
	for b := make([]byte, 64<<10); from < to; {
		n, err := f.WriteAt(b[:min(int64(len(b)), to-from)], from)
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}

// isFull tells want of space from every other error.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
