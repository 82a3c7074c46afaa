package vault

import "golang.org/x/sys/unix"

// lockMemory is best effort: RLIMIT_MEMLOCK may forbid it, and a vault that
// cannot lock memory is still better than none.
func lockMemory(b []byte) {
	_ = unix.Mlock(b)
	_ = unix.Madvise(b, unix.MADV_DONTDUMP)
}

func unlockMemory(b []byte) {
	_ = unix.Munlock(b)
	_ = unix.Madvise(b, unix.MADV_DODUMP)
}
