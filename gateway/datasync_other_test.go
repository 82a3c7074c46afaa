//go:build !linux

package gateway

import "os"

func fdatasync(f *os.File) error { return f.Sync() }
