//go:build !cgo

package store

import "syscall"

// sqliteFault knows nothing: without cgo there is no SQLite here, only types to check.
func sqliteFault(error) (string, syscall.Errno) { return "", 0 }
