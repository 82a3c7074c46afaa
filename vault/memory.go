package vault

import (
	"os"
	"unsafe"
)

// pages is memory that shares no page with anything else, so that locking and
// unlocking it disturbs nobody. It is Go memory: a slice kept too long by a
// caller's mistake reads zeros, and neither faults nor shows the next secret.
type pages struct{ b []byte }

// newPages returns n zero bytes (rounded up to whole pages), locked and kept
// out of core dumps where the system allows.
func newPages(n int) *pages {
	size := os.Getpagesize()
	whole := (max(n, 1) + size - 1) / size * size
	raw := make([]byte, whole+size)
	skip := 0
	if over := int(uintptr(unsafe.Pointer(unsafe.SliceData(raw))) % uintptr(size)); over != 0 {
		skip = size - over
	}
	p := &pages{b: raw[skip : skip+whole : skip+whole]}
	lockMemory(p.b)
	return p
}

// wipe clears the memory and gives it back. It may be called again.
func (p *pages) wipe() {
	if p == nil || p.b == nil {
		return
	}
	clear(p.b)
	unlockMemory(p.b)
	p.b = nil
}
