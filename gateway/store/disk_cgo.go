//go:build cgo

package store

import (
	"errors"
	"syscall"

	"github.com/mattn/go-sqlite3"
)

// sqliteFault reads SQLite's own code; where that only says that the system failed, the system's.
func sqliteFault(err error) (says string, errno syscall.Errno) {
	e, ok := errors.AsType[sqlite3.Error](err)
	if !ok {
		return "", 0
	}
	switch e.Code {
	case sqlite3.ErrFull:
		return "the disk is full", 0
	case sqlite3.ErrReadonly:
		return "the disk or the folder can't be written to", 0
	case sqlite3.ErrIoErr, sqlite3.ErrCantOpen:
		if e.SystemErrno == 0 {
			return "the disk failed", 0
		}
	}
	return "", e.SystemErrno
}
