package vault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// Errors that a caller chooses on. All are returned wrapped.
var (
	ErrWrongKey    = errors.New("no slot opens with this key")
	ErrQuarantined = errors.New("vault is quarantined")
	ErrLocked      = errors.New("vault is locked")
	ErrAbsent      = errors.New("there is no vault")
	ErrConflict    = errors.New("stored state is not the expected one") // lock and unlock again
	ErrExists      = errors.New("already exists")
	ErrUnknown     = errors.New("no such entry")
	ErrStale       = errors.New("entry has another version")
	ErrInvalid     = errors.New("not acceptable") // a name, size or work factor out of bounds
)

// State is what may be done with the vault. Only Ready allows anything.
type State uint8

const (
	Absent      State = iota // nothing stored yet
	Locked                   // sealed; a key may open it
	Ready                    // keys in memory
	Quarantined              // stored rows contradict the manifest, or a caller found a rollback
)

func (s State) String() string {
	switch s {
	case Locked:
		return "locked"
	case Ready:
		return "ready"
	case Quarantined:
		return "quarantined"
	default:
		return "absent"
	}
}

// Row is one stored row. Everything in it is opaque to the store; Table is a
// class such as "slot" or "credential", never a name given by a person.
type Row struct {
	ID      string // 32 hex digits, random
	Table   string
	Version uint64
	Data    []byte
}

// Store is the vault's one view of the database. It must be safe for
// concurrent use.
type Store interface {
	// Load returns every row and the counter, read in one transaction. A new
	// store has no rows and counter 0.
	Load(ctx context.Context) (rows []Row, base uint64, err error)
	// Commit replaces or inserts put, deletes drop, inserts also (an outbox
	// batch; nil: none) and raises the counter from base to base+1: in one
	// transaction, durable on return. It returns ErrConflict, having changed
	// nothing, if the stored counter isn't base or a row of drop isn't there.
	Commit(ctx context.Context, base uint64, put []Row, drop []string, also []byte) error
	// Copy returns the whole database as of one moment before it returns. The
	// reader lasts until it is closed.
	Copy(ctx context.Context) (io.ReadCloser, error)
	// Swap makes another database and puts it in the place of the present one
	// in one step, durable on return. Killed at any time, there is the one or
	// the other, whole. No write of anybody's is lost between. If s.From isn't
	// nil, all grants in it are ended, and what of the present database must
	// outlive it (the state of runs, batches not yet in the log) is carried
	// over. An error leaves the present one, unless it came after that step.
	// ErrInvalid: From is too long or no such database.
	Swap(ctx context.Context, s Swap) error
}

// Vault is safe for concurrent use. Locks are taken in the order flight,
// write, mu; none is held while a callback of With runs.
type Vault struct {
	store  Store
	flight chan struct{} // holds one token: one slot is tried at a time (scrypt 2^18 takes 256 MiB)
	write  sync.Mutex    // one change at a time, held over Store.Commit
	mu     sync.RWMutex  // guards in and closes; held while keys are used
	in     *interior     // nil unless Ready
	closes uint64        // Lock and Quarantine so far: an unlock that began before one publishes nothing
	seen   atomic.Pointer[view]
}

// view is what readers see without a lock.
type view struct {
	state    State
	snapshot *Snapshot // nil unless Ready
	reason   string    // why Quarantined
	forged   []string
}

// Open looks whether s holds a vault: the result is absent or locked. It reads
// nothing secret and needs no key.
func Open(ctx context.Context, s Store) (*Vault, error) {
	rows, base, err := s.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("open vault: %w", err)
	}
	v := &Vault{store: s, flight: make(chan struct{}, 1)}
	w := &view{state: Locked}
	if len(rows) == 0 && base == 0 {
		w.state = Absent
	}
	v.seen.Store(w)
	return v, nil
}

// State returns the current state without taking a lock.
func (v *Vault) State() State { return v.seen.Load().state }

// Reason says why the vault is quarantined; it is empty in every other state.
func (v *Vault) Reason() string { return v.seen.Load().reason }

// Forged returns the ids of stored rows that no holder of the DEK wrote, as
// found by the last Unlock. They were ignored; they are worth an incident.
func (v *Vault) Forged() []string { return v.seen.Load().forged }

// Snapshot returns the metadata of one moment, nil unless Ready. It takes no lock.
func (v *Vault) Snapshot() *Snapshot { return v.seen.Load().snapshot }

// Lock forgets and wipes the keys. An absent or quarantined vault stays so. A
// callback of With that still runs keeps its own plaintext until it returns:
// drain them first.
func (v *Vault) Lock() {
	v.close(func(s State) *view {
		if s == Ready {
			return &view{state: Locked}
		}
		return nil
	})
}

// Quarantine wipes the keys and refuses every later Unlock of this Vault. The
// reason is shown to people and must hold no secret.
func (v *Vault) Quarantine(reason string) {
	v.close(func(State) *view { return &view{state: Quarantined, reason: reason} })
}

// Release leaves quarantine by the operator's word: the vault is locked again, and the next Unlock checks everything anew.
func (v *Vault) Release() {
	v.close(func(s State) *view {
		if s == Quarantined {
			return &view{state: Locked}
		}
		return nil
	})
}

// close wipes the keys and shows what next answers for the present state (nil:
// what is shown stays).
func (v *Vault) close(next func(State) *view) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closes++
	if w := next(v.State()); w != nil {
		v.seen.Store(w)
	}
	if v.in != nil {
		v.in.wipe()
		v.in = nil
	}
}

// publish makes in the vault's interior, unless the vault was closed since
// closes was read: of two orders that cross, the one that grants less wins.
func (v *Vault) publish(in *interior, closes uint64, forged []string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closes != closes {
		in.wipe()
		if v.State() == Absent { // a first commit that crossed a Lock
			v.seen.Store(&view{state: Locked})
		}
		return v.refusal()
	}
	if v.in != nil {
		v.in.wipe()
	}
	v.in = in
	v.seen.Store(&view{state: Ready, snapshot: in.snapshot(), forged: forged})
	return nil
}

// closed says how often the vault was closed, for publish.
func (v *Vault) closed() uint64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.closes
}

// refusal is the error for an operation that needs a ready vault.
func (v *Vault) refusal() error {
	switch v.State() {
	case Absent:
		return ErrAbsent
	case Quarantined:
		return ErrQuarantined
	default:
		return ErrLocked
	}
}
