//go:build !linux

package auditlog

import "os"

// datasync: on darwin os.File.Sync is F_FULLFSYNC, which reaches the medium where fsync does not.
func datasync(f *os.File) error { return f.Sync() }

func allocate(f *os.File, from, to int64) error { return writeZeros(f, from, to) }
