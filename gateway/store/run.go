package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Run, Epoch and Grant carry their states as the words of authz; a grant that
// has ended may carry why instead. Sealed is under the vault's keys, or nil.
// Ended is zero while they live.
type Run struct {
	ID, State       string
	Opened, Changed time.Time
	Sealed          []byte
}

type Epoch struct {
	ID, Run, State string
	Opened, Ended  time.Time
	Sealed         []byte
}

type Grant struct {
	ID, Run, Epoch, State string
	Issued, Ended         time.Time
	Sealed                []byte
}

// PutRun writes a new run, or fills in one that is stored in the same state. A
// state is changed by SetRun alone: ErrConflict.
func (t *Tx) PutRun(r Run) error {
	err := t.one(`INSERT INTO runs (id, state, opened, changed, sealed) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET opened = excluded.opened, changed = excluded.changed,
		sealed = coalesce(excluded.sealed, sealed) WHERE state = excluded.state`,
		r.ID, r.State, stamp(r.Opened), stamp(r.Changed), r.Sealed)
	if err != nil {
		return fmt.Errorf("put run: %w", err)
	}
	return nil
}

// SetRun moves a run from one state to another. ErrConflict if it isn't in from.
func (t *Tx) SetRun(id, from, to string, at time.Time) error {
	if err := t.one(`UPDATE runs SET state = ?, changed = ? WHERE id = ? AND state = ?`, to, stamp(at), id, from); err != nil {
		return fmt.Errorf("set run: %w", err)
	}
	return nil
}

// RunState reads the state a run's row has; false if it has no row.
func (t *Tx) RunState(id string) (state string, ok bool, err error) {
	err = t.tx.QueryRowContext(t.ctx, `SELECT state FROM runs WHERE id = ?`, id).Scan(&state)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read run: %w", err)
	}
	return state, true, nil
}

// PutEpoch writes a new epoch of a stored run, or fills in one that is stored
// in the same state.
func (t *Tx) PutEpoch(e Epoch) error {
	err := t.one(`INSERT INTO epochs (id, run, state, opened, ended, sealed) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET opened = excluded.opened,
		sealed = coalesce(excluded.sealed, sealed) WHERE state = excluded.state AND run = excluded.run AND ended = excluded.ended`,
		e.ID, e.Run, e.State, stamp(e.Opened), stamp(e.Ended), e.Sealed)
	if err != nil {
		return fmt.Errorf("put epoch: %w", err)
	}
	return nil
}

// EndEpoch sets a live epoch to "ended". ErrConflict if it isn't live.
func (t *Tx) EndEpoch(id string, at time.Time) error {
	if err := t.one(`UPDATE epochs SET state = 'ended', ended = ? WHERE id = ? AND ended = 0`, stamp(at), id); err != nil {
		return fmt.Errorf("end epoch: %w", err)
	}
	return nil
}

// PutGrant writes a new grant of a stored run and epoch. One that is stored
// already is ErrConflict: a grant is never given twice.
func (t *Tx) PutGrant(g Grant) error {
	err := t.one(`INSERT INTO grants (id, run, epoch, state, issued, ended, sealed) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO NOTHING`,
		g.ID, g.Run, g.Epoch, g.State, stamp(g.Issued), stamp(g.Ended), g.Sealed)
	if err != nil {
		return fmt.Errorf("put grant: %w", err)
	}
	return nil
}

// EndGrant ends a live grant. ErrConflict if it isn't live.
func (t *Tx) EndGrant(id, state string, at time.Time) error {
	if err := t.one(`UPDATE grants SET state = ?, ended = ? WHERE id = ? AND ended = 0`, state, stamp(at), id); err != nil {
		return fmt.Errorf("end grant: %w", err)
	}
	return nil
}

// EndAllGrants ends every live grant and says how many there were.
func (t *Tx) EndAllGrants(state string, at time.Time) (int64, error) {
	n, err := t.many(`UPDATE grants SET state = ?, ended = ? WHERE ended = 0`, state, stamp(at))
	if err != nil {
		return 0, fmt.Errorf("end grants: %w", err)
	}
	return n, nil
}

// Runs returns all runs, oldest first.
func (d *DB) Runs(ctx context.Context) ([]Run, error) {
	defer d.use()()
	out, err := collect(ctx, d.r, func(rs *sql.Rows) (r Run, err error) {
		var opened, changed int64
		err = rs.Scan(&r.ID, &r.State, &opened, &changed, &r.Sealed)
		r.Opened, r.Changed = unstamp(opened), unstamp(changed)
		return r, err
	}, `SELECT id, state, opened, changed, sealed FROM runs ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	return out, nil
}

// Epochs returns a run's epochs, oldest first.
func (d *DB) Epochs(ctx context.Context, run string) ([]Epoch, error) {
	defer d.use()()
	out, err := collect(ctx, d.r, func(rs *sql.Rows) (e Epoch, err error) {
		var opened, ended int64
		err = rs.Scan(&e.ID, &e.Run, &e.State, &opened, &ended, &e.Sealed)
		e.Opened, e.Ended = unstamp(opened), unstamp(ended)
		return e, err
	}, `SELECT id, run, state, opened, ended, sealed FROM epochs WHERE run = ? ORDER BY id`, run)
	if err != nil {
		return nil, fmt.Errorf("read epochs: %w", err)
	}
	return out, nil
}

// Grants returns a run's grants, oldest first.
func (d *DB) Grants(ctx context.Context, run string) ([]Grant, error) {
	defer d.use()()
	out, err := collect(ctx, d.r, func(rs *sql.Rows) (g Grant, err error) {
		var issued, ended int64
		err = rs.Scan(&g.ID, &g.Run, &g.Epoch, &g.State, &issued, &ended, &g.Sealed)
		g.Issued, g.Ended = unstamp(issued), unstamp(ended)
		return g, err
	}, `SELECT id, run, epoch, state, issued, ended, sealed FROM grants WHERE run = ? ORDER BY id`, run)
	if err != nil {
		return nil, fmt.Errorf("read grants: %w", err)
	}
	return out, nil
}
