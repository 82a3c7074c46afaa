package vault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// ErrOther: a backup is restored over its own vault, or where there is none.
var ErrOther = errors.New("backup is of another vault")

// RestoreOptions has no defaults.
type RestoreOptions struct {
	Limit int64 // of the database in the backup, in bytes; 0 is an error
	Proof Key   // opens a slot of the vault that is there, if any; zero: the backup's key does

	// Floor returns the highest counter anybody has seen of this vault, such as
	// its log: the restored one is above. unseal opens what Seal gave to the vault
	// that is there or, in its generation, to the backup's. nil: nobody has.
	Floor func(unseal func(use string, ad, box []byte) ([]byte, error)) (uint64, error)
}

// Restore puts what Backup wrote in the place of the database. k opens a slot
// of the backup. All of it is read and every row checked first; an error leaves
// the present vault as it is. The restored vault has the backup's DEK and
// slots, a new generation, and a counter above all others; all grants are
// ended. also (nil: none) makes the outbox batch of the same transaction; it may
// not use the vault. Afterwards the vault is locked; from Ready it is refused (ErrExists).
// ErrWrongKey, ErrOther; ErrInvalid: no whole backup, or one too long.
func (v *Vault) Restore(ctx context.Context, r io.Reader, k Key, o RestoreOptions, also func(Moved) ([]byte, error)) (Moved, error) {
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

func (v *Vault) restore(ctx context.Context, r io.Reader, k Key, o RestoreOptions, also func(Moved) ([]byte, error)) (m Moved, err error) {
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
	floor, err := o.floor(present, from)
	if err != nil {
		return Moved{}, err
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
			if next, err = arrive(rows, was, from, present, max(was, base, floor)+1); err != nil {
				return nil, 0, err
			}
			m = next.moved()
			reseal = m.reseal(next.keys, sources(next.keys, from, present)...) // next may have forgotten the earliest
			rows, err := next.rows()
			return rows, next.manifest.counter, err
		},
		Reseal: func(use string, ad, box []byte) ([]byte, error) { return reseal(use, ad, box) },
		Verify: func(rows []Row, base uint64) error { return next.verify(rows, base, []Key{k}) },
		Also: func() ([]byte, error) {
			if also == nil {
				return nil, nil
			}
			return also(m)
		},
	})
	return m, err
}

func (o RestoreOptions) floor(present, from *keys) (uint64, error) {
	if o.Floor == nil {
		return 0, nil
	}
	return o.Floor(func(use string, ad, box []byte) ([]byte, error) {
		if present != nil {
			if plain, err := present.unsealUse(use, ad, box); err == nil {
				return plain, nil
			}
		}
		return from.unsealUse(use, ad, box)
	})
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

// sources are the keys that are there.
func sources(all ...*keys) []*keys {
	return slices.DeleteFunc(all, func(k *keys) bool { return k == nil })
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
