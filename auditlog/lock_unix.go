//go:build unix

package auditlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockDir takes the writer's lock on the audit folder, until the file is closed. A look by HoldsLock may be in the
// way for a moment, so it asks a few times.
func lockDir(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("lock audit log: %w", err)
	}
	for try := 0; ; try++ {
		err = flock(f, unix.LOCK_EX)
		if !errors.Is(err, unix.EWOULDBLOCK) || try == 10 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err == nil {
		err = sameFile(path, f)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock audit log: %w", err)
	}
	return f, nil
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err != unix.EINTR {
			return err
		}
	}
}

// sameFile: the folder may have been moved aside between open and lock.
func sameFile(path string, f *os.File) error {
	a, err := os.Stat(path)
	if err != nil {
		return err
	}
	b, err := f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(a, b) {
		return ErrLocked
	}
	return nil
}

// HoldsLock says whether a writer has dir/audit open now. False also where nobody can tell.
func HoldsLock(dir string) bool {
	f, err := os.Open(filepath.Join(dir, segmentsFolder))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(flock(f, unix.LOCK_SH), unix.EWOULDBLOCK)
}
