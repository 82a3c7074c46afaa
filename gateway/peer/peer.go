// Package peer names the process at the other end of a local socket by kernel
// facts alone, and says whether it is still that process.
//
// A Process is one process instance: a process (its Key), the program image it
// runs (the digest of the running executable and its auxiliary vector), and a
// held descriptor on its memory map that stops reading once the image is
// exchanged. Same tells an exec, which neither pid nor start time nor pidfd do.
//
// These facts find replaced and careless code. A process of the same user that
// hides on purpose can forge its auxiliary vector, and in a user namespace of
// its own its executable: digests are evidence for a card, never authentication.
// Ancestry and the owner of a run are attribution, not a boundary.
//
// Linux has all of it (pidfds: 5.3, SO_PEERPIDFD: 6.5, pidfs: 6.9; what an older
// kernel lacks is a weak mark). macOS has tokens and no message credentials.
// Other systems identify nobody.
package peer

import (
	"errors"
	"slices"
	"time"
)

var (
	// ErrUnidentified: the kernel doesn't say who this is, or the process hides
	// (not dumpable, foreign pid namespace, dead before it could be looked at).
	ErrUnidentified = errors.New("peer unidentified")
	// ErrReplaced: the process lives on with another program image.
	ErrReplaced = errors.New("peer replaced")
	// ErrGone: the process has ended. Bytes that it sent before are refused too:
	// nobody can answer for them any more.
	ErrGone = errors.New("peer gone")
	// ErrForeignSender: bytes on a connection came from another process than the
	// one that connected, or with a descriptor. The connection is closed.
	ErrForeignSender = errors.New("foreign sender")
	// ErrInUse: somebody listens at the path, or it is nothing of ours to remove.
	ErrInUse = errors.New("socket path in use")
	// ErrUnsupported: this system has no such thing.
	ErrUnsupported = errors.New("not supported on this system")
)

// Values of Facts.Identity. The zero value means that nothing is known.
const (
	Strong    = "strong"
	Weak      = "weak"      // Facts.Weak says why
	Contained = "contained" // in another pid namespace: open none of its paths by name
)

// Reasons in Facts.Weak.
const (
	WeakLateHandle   = "pidfd opened after the connection"
	WeakNoPidfs      = "kernel without pidfs"
	WeakNotRandom    = "address randomization off"
	WeakTraced       = "traced by another process"
	WeakUserNS       = "foreign user namespace"
	WeakNamespaces   = "namespaces unreadable"
	WeakPersonality  = "personality unreadable"
	WeakImage        = "program image unreadable"
	WeakNotDumpable  = "not dumpable"
	WeakAdopted      = "adopted: its parent is gone"
	WeakCodeUnsigned = "code signer not checked"
)

// Facts are what the kernel said about a process when it was pinned. Exe, Comm
// and Args are text that the process chooses, raw here: escape them wherever
// they are shown, and decide nothing by them.
type Facts struct {
	PID, PPID, SID int       // in our pid namespace; SID 0: leader not visible
	PGID           int       // its process group
	UID            uint32    // effective
	Start          time.Time // to a clock tick (10 ms)
	Exe            string    // path by the kernel; " (deleted)" may follow
	ExeDigest      string    // "sha256:" and 64 hex digits of the running file; "" unknown
	Comm           string    // at most 15 bytes
	Args           []string  // of the first 64 KiB
	Identity       string    // Strong, Weak or Contained
	Weak           []string  // reasons, in a fixed order
}

func (f Facts) clone() Facts {
	f.Args = slices.Clone(f.Args)
	f.Weak = slices.Clone(f.Weak)
	return f
}

// grade sets Identity from what was found.
func (f *Facts) grade(contained bool) {
	switch {
	case contained:
		f.Identity = Contained
	case len(f.Weak) > 0:
		f.Identity = Weak
	default:
		f.Identity = Strong
	}
}
