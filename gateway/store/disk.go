package store

import (
	"errors"
	"syscall"

	"github.com/mattn/go-sqlite3"
)

// DiskFault says why the disk refused, as SQLite or the system tells it; "" if err is not about that.
func DiskFault(err error) string {
	if e, ok := errors.AsType[sqlite3.Error](err); ok {
		switch e.Code {
		case sqlite3.ErrFull:
			return "the disk is full"
		case sqlite3.ErrReadonly:
			return "the disk or the folder can't be written to"
		case sqlite3.ErrIoErr, sqlite3.ErrCantOpen:
			if e.SystemErrno == 0 {
				return "the disk failed"
			}
			err = e.SystemErrno
		}
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
