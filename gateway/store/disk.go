package store

import (
	"errors"
	"syscall"
)

// DiskFault says why the disk refused, as SQLite or the system tells it; "" if err is not about that.
func DiskFault(err error) string {
	says, errno := sqliteFault(err)
	if says != "" {
		return says
	}
	if errno != 0 {
		err = errno
	}
	for _, f := range []struct {
		errno syscall.Errno
		says  string
	}{
		{syscall.ENOSPC, "the disk is full"}, {syscall.EDQUOT, "the disk's quota is used up"}, {syscall.EFBIG, "a file may not grow any more here"},
		{syscall.EROFS, "the disk is mounted read-only"}, {syscall.EACCES, "the folder can't be written to"}, {syscall.EIO, "the disk failed"},
	} {
		if errors.Is(err, f.errno) {
			return f.says
		}
	}
	return ""
}
