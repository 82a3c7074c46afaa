package vault

import (
	"os"
	"sync"
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

// spare keeps the memory that one entry's value was lent in, so that a loan
// needs no system call. It serves that entry alone: a slice kept too long by a
// caller's mistake never shows another secret.
type spare struct {
	mu     sync.Mutex
	free   []*pages // cleared, still locked
	closed bool
}

const maxSpare = 16 // for each entry: RLIMIT_MEMLOCK is often 8 MiB

// take returns zero memory of at least n bytes; an entry always asks the same n.
func (s *spare) take(n int) *pages {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.free) - 1; last >= 0 {
		p := s.free[last]
		s.free = s.free[:last]
		return p
	}
	return newPages(n)
}

// give clears p and keeps it for the next loan.
func (s *spare) give(p *pages) {
	clear(p.b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.free) == maxSpare {
		p.wipe()
		return
	}
	s.free = append(s.free, p)
}

// close gives back what is free now and what is given later.
func (s *spare) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, p := range s.free {
		p.wipe()
	}
	s.free = nil
}
