package auditlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// disk is the part of the file system that may fail under a writer. After each call returns nil its effect is
// durable as far as it says.
type disk interface {
	create(path string) (segmentFile, error) // a new file, 0600; refuses one that is there; nothing is durable yet
	rename(from, to string) error            // not durable before syncDir
	syncDir(path string) error               // names in path are durable
}

// segmentFile: Sync makes the written bytes and the length durable.
type segmentFile interface {
	io.WriteCloser
	Sync() error
	Stat() (fs.FileInfo, error)
}

type osDisk struct{}

type osFile struct{ *os.File }

func (f osFile) Sync() error { return datasync(f.File) }

// create opens for appending: in a file that somebody cut or lengthened the next write does not hide it.
func (osDisk) create(path string) (segmentFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

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
	_, err = f.Write(b)
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
