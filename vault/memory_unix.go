//go:build unix && !linux

package vault

import "golang.org/x/sys/unix"

// lockMemory is best effort; these systems can't leave single pages out of a
// core dump.
func lockMemory(b []byte) { _ = unix.Mlock(b) }

func unlockMemory(b []byte) { _ = unix.Munlock(b) }
