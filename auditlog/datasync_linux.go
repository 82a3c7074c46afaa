package auditlog

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// datasync is fdatasync: the bytes and the length, not the times.
func datasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

func allocate(f *os.File, from, to int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, from, to-from)
		switch {
		case err == unix.EINTR:
		case errors.Is(err, unix.EOPNOTSUPP), err == unix.ENOSYS:
			return writeZeros(f, from, to)
		default:
			return os.NewSyscallError("fallocate", err)
		}
	}
}
