package auditlog

import (
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
