package home

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrRunning is returned by Prepare while another spd holds the folder.
var ErrRunning = errors.New("another spd is running here")

// Prepare sets the umask to 077, makes the folders private and takes the lock
// that lets one spd run on them; of a served home the socket folder may be
// entered by the served user's group. release gives the lock back; the kernel does so
// when the process dies. ErrNotPrivate, ErrRunning.
func (h Home) Prepare() (release func() error, err error) {
	if h.data == "" || len(h.runtime) == 0 {
		return nil, errors.New("prepare home: no folder")
	}
	unix.Umask(0o077)
	sockets := MakePrivate
	if h.served {
		sockets = makeServed
	}
	for _, dir := range []string{h.data, h.config} {
		if err := MakePrivate(dir); err != nil {
			return nil, fmt.Errorf("prepare home: %w", err)
		}
	}
	if err := sockets(h.Runtime()); err != nil {
		return nil, fmt.Errorf("prepare home: %w", err)
	}
	release, err = lock(filepath.Join(h.data, "spd.lock"))
	if err != nil {
		return nil, fmt.Errorf("prepare home: %w", err)
	}
	return release, nil
}

// lock holds path exclusively. The file stays: removing it would let two hold
// two files of one name.
func lock(path string) (func() error, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EINTR {
			break
		}
	}
	if err == nil {
		return f.Close, nil
	}
	f.Close()
	if err == unix.EWOULDBLOCK {
		err = ErrRunning
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}
