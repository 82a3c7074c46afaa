package vault

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// ErrOther: a backup is restored over its own vault, or where there is none.
var ErrOther = errors.New("backup is of another vault")

// RestoreOptions has no defaults.
type RestoreOptions struct {
	Limit int64  // of the database in the backup, in bytes; 0 is an error
	Proof Key    // opens a slot of the vault that is there, if any; zero: the backup's key does
	Floor uint64 // the highest counter anybody has seen of this vault, such as its log: the restored one is above
}

// Restore puts what Backup wrote in the place of the database. k opens a slot
// of the backup. All of it is read and every row checked first; an error leaves
// the present vault as it is. The restored vault has the backup's DEK and
// slots, a new generation, and a counter above all others; all grants are
// ended. Afterwards the vault is locked; from Ready it is refused (ErrExists).
// ErrWrongKey, ErrOther; ErrInvalid: no whole backup, or one too long.
func (v *Vault) Restore(ctx context.Context, r io.Reader, k Key, o RestoreOptions, also []byte) (Moved, error) {
	if err := v.begin(ctx); err != nil {
		return Moved{}, fmt.Errorf("restore vault: %w", err)
	}
	defer v.end()
	v.write.Lock()
	defer v.write.Unlock()
	if v.State() == Ready {
		return Moved{}, fmt.Errorf("restore vault: it is open, lock it first: %w", ErrExists)
	}
	if o.Limit <= 0 {
		return Moved{}, fmt.Errorf("restore vault: limit %d: %w", o.Limit, ErrInvalid)
	}
	m, err := v.restore(ctx, r, k, o, also)
	if err != nil {
		if _, base, lost := v.store.Load(ctx); lost != nil || base == m.Counter && base != 0 {
			v.arrived()
		}
		return Moved{}, fmt.Errorf("restore vault: %w", err)
	}
	v.arrived()
	return m, nil
}

// arrived shows that another database is in place: locked, whatever was before.
func (v *Vault) arrived() {
	v.close(func(State) *view { return &view{state: Locked} })
}

func (v *Vault) restore(ctx context.Context, r io.Reader, k Key, o RestoreOptions, also []byte) (m Moved, err error) {
	present, base, err := v.present(ctx, k, o)
	if err != nil {
		return Moved{}, err
	}
	defer present.wipe()
	from, src, err := openBackup(r, k)
	if err != nil {
		return Moved{}, err
	}
	defer from.wipe()
	if present != nil && present.vault != from.vault {
		return Moved{}, ErrOther
	}
	var next *interior
	var reseal func(use string, ad, box []byte) ([]byte, error)
	defer func() {
		if next != nil {
			next.wipe()
		}
	}()
	err = v.store.Swap(ctx, Swap{
		From:  reader{ctx, src},
		Limit: o.Limit,
		Edit: func(rows []Row, was uint64) ([]Row, uint64, error) {
			if next, err = arrive(rows, was, from, present, max(was, base, o.Floor)+1); err != nil {
				return nil, 0, err
			}
			m = next.moved()
			reseal = m.reseal(next.keys, next.keys)
			rows, err := next.rows()
			return rows, next.manifest.counter, err
		},
		Reseal: func(use string, ad, box []byte) ([]byte, error) { return reseal(use, ad, box) },
		Verify: func(rows []Row, base uint64) error { return next.verify(rows, base, []Key{k}) },
		Also:   also,
	})
	return m, err
}

// present returns the keys of the vault that is there, nil if none is, and its
// counter. They open what its log and its rows hold, even if it is quarantined.
func (v *Vault) present(ctx context.Context, k Key, o RestoreOptions) (*keys, uint64, error) {
	if v.State() == Absent {
		return nil, 0, nil
	}
	rows, base, err := v.store.Load(ctx)
	if err != nil {
		return nil, 0, err
	}
	if o.Proof != (Key{}) {
		k = o.Proof
	}
	keys, _, err := openSlot(rows, k, func(k *keys, s Row) bool { return belongs(rows, k, s) })
	if err != nil {
		return nil, 0, fmt.Errorf("proof for the vault that is there: %w", err)
	}
	for _, r := range rows {
		if r.Table == tablePast && len(keys.past) == 0 {
			_ = keys.openPast(r) // a spoilt one leaves less of the log readable
		}
	}
	return keys, base, nil
}

// arrive checks the rows of a backup and makes them those of a new generation,
// which also remembers the keys of the vault that was there.
func arrive(rows []Row, base uint64, from, present *keys, counter uint64) (*interior, error) {
	if _, _, ok := from.settle(rows); !ok {
		return nil, fmt.Errorf("its database is of another key: %w", ErrInvalid)
	}
	in, _, err := audit(rows, base, from) // forged rows stay behind
	if err != nil {
		return nil, fmt.Errorf("its database: %w: %w", ErrInvalid, err)
	}
	var others []*keys
	generation := from.generation
	if present != nil {
		others = append(others, present)
		generation = max(generation, present.generation)
	}
	next, err := in.move(from.next(nil, generation+1, others...), counter)
	if err != nil {
		return nil, fmt.Errorf("its database: %w: %w", ErrInvalid, err)
	}
	return next, nil
}
