package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Action is one call as far as the log has told it. Digest is a keyed hash of
// the plan, nil if unknown.
type Action struct {
	ID, Run, Epoch    string
	State, Outcome    string
	Seq               uint64 // of the log record this row was made from
	Started, Finished time.Time
	Unresolved        bool
	Digest            []byte
	Sealed            []byte
	Result            []byte // sealed apart; nil where there is none, or none any more
}

const actionColumns = `id, run, epoch, state, outcome, seq, started, finished, unresolved, digest, sealed, result`

// Redo stores actions written behind and the log sequence they cover, in one
// transaction. The sequence is never lowered, and a row is not replaced by one
// made from an earlier record.
func (d *DB) Redo(ctx context.Context, upto uint64, a []Action) error {
	covered, err := number(upto)
	if err != nil {
		return fmt.Errorf("redo actions: %w", err)
	}
	return d.Change(ctx, func(t *Tx) error {
		for _, x := range a {
			seq, err := number(x.Seq)
			if err != nil {
				return fmt.Errorf("redo action: %w", err)
			}
			if _, err := t.many(`INSERT INTO actions (`+actionColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT (id) DO UPDATE SET run = excluded.run, epoch = excluded.epoch, state = excluded.state,
				outcome = excluded.outcome, seq = excluded.seq, started = excluded.started, finished = excluded.finished,
				unresolved = excluded.unresolved, digest = excluded.digest, sealed = excluded.sealed,
				result = coalesce(excluded.result, result)
				WHERE excluded.seq >= seq`,
				x.ID, x.Run, x.Epoch, x.State, x.Outcome, seq, stamp(x.Started), stamp(x.Finished),
				x.Unresolved, x.Digest, x.Sealed, x.Result); err != nil {
				return fmt.Errorf("redo action: %w", err)
			}
		}
		if err := t.one(`UPDATE log_applied SET seq = max(seq, ?) WHERE one = 1`, covered); err != nil {
			return fmt.Errorf("redo actions: %w", err)
		}
		return nil
	})
}

// ResetApplied lowers the covered sequence to seq where it is above: the log ends before it, by the operator's word.
func (d *DB) ResetApplied(ctx context.Context, seq uint64) error {
	at, err := number(seq)
	if err != nil {
		return fmt.Errorf("reset applied sequence: %w", err)
	}
	return d.Change(ctx, func(t *Tx) error {
		if err := t.one(`UPDATE log_applied SET seq = min(seq, ?) WHERE one = 1`, at); err != nil {
			return fmt.Errorf("reset applied sequence: %w", err)
		}
		return nil
	})
}

// Applied returns the log sequence that Redo has covered.
func (d *DB) Applied(ctx context.Context) (seq uint64, err error) {
	defer d.use()()
	if err := d.r.QueryRowContext(ctx, `SELECT seq FROM log_applied WHERE one = 1`).Scan(&seq); err != nil {
		return 0, fmt.Errorf("read applied sequence: %w", err)
	}
	return seq, nil
}

// Actions returns at most limit actions of a run (empty: of all), newest first.
func (d *DB) Actions(ctx context.Context, run string, limit int) ([]Action, error) {
	where, args := ``, []any{}
	if run != "" {
		where, args = ` WHERE run = ?`, []any{run}
	}
	return d.actions(ctx, where+` ORDER BY id DESC LIMIT ?`, append(args, max(limit, 0))...)
}

// ActionByID returns one action.
func (d *DB) ActionByID(ctx context.Context, id string) (Action, bool, error) {
	a, err := d.actions(ctx, ` WHERE id = ?`, id)
	if err != nil || len(a) == 0 {
		return Action{}, false, err
	}
	return a[0], true, nil
}

// Resolve ends that an action is unresolved, and stores what its row says from then on. ErrConflict if it isn't.
func (t *Tx) Resolve(id string, sealed []byte) error {
	if err := t.one(`UPDATE actions SET unresolved = 0, sealed = ? WHERE id = ? AND unresolved = 1`, sealed, id); err != nil {
		return fmt.Errorf("resolve action: %w", err)
	}
	return nil
}

// Forget drops the results of actions that finished before results, and the rows of those that finished before rows. The
// row of an unresolved action stays.
func (t *Tx) Forget(results, rows time.Time) error {
	if _, err := t.many(`UPDATE actions SET result = NULL WHERE finished > 0 AND finished < ? AND result IS NOT NULL`, stamp(results)); err != nil {
		return fmt.Errorf("forget results: %w", err)
	}
	if _, err := t.many(`DELETE FROM actions WHERE finished > 0 AND finished < ? AND unresolved = 0`, stamp(rows)); err != nil {
		return fmt.Errorf("forget actions: %w", err)
	}
	return nil
}

// Unresolved returns the actions nobody knows the end of, oldest first.
func (d *DB) Unresolved(ctx context.Context) ([]Action, error) {
	return d.actions(ctx, ` WHERE unresolved = 1 ORDER BY id`)
}

// Running returns the actions that have not ended: jobs on hosts, oldest first.
func (d *DB) Running(ctx context.Context) ([]Action, error) {
	return d.actions(ctx, ` WHERE state = 'running' ORDER BY id`)
}

func (d *DB) actions(ctx context.Context, tail string, args ...any) ([]Action, error) {
	defer d.use()()
	out, err := collect(ctx, d.r, func(rs *sql.Rows) (a Action, err error) {
		var started, finished int64
		err = rs.Scan(&a.ID, &a.Run, &a.Epoch, &a.State, &a.Outcome, &a.Seq, &started, &finished,
			&a.Unresolved, &a.Digest, &a.Sealed, &a.Result)
		a.Started, a.Finished = unstamp(started), unstamp(finished)
		return a, err
	}, `SELECT `+actionColumns+` FROM actions`+tail, args...)
	if err != nil {
		return nil, fmt.Errorf("read actions: %w", err)
	}
	return out, nil
}

// Anchor returns the log head that SetAnchor last stored; sequence 0 and nil
// before. sealed is the same under the vault's keys, or whatever the caller
// put there.
func (d *DB) Anchor(ctx context.Context) (seq uint64, head, sealed []byte, err error) {
	defer d.use()()
	if err := d.r.QueryRowContext(ctx, `SELECT seq, head, sealed FROM log_anchor WHERE one = 1`).Scan(&seq, &head, &sealed); err != nil {
		return 0, nil, nil, fmt.Errorf("read anchor: %w", err)
	}
	return seq, head, sealed, nil
}

// ResetAnchor stores a log head even where it is before the stored one: the operator accepted that log as it is.
func (d *DB) ResetAnchor(ctx context.Context, seq uint64, head, sealed []byte) error {
	at, err := number(seq)
	if err != nil {
		return fmt.Errorf("reset anchor: %w", err)
	}
	return d.Change(ctx, func(t *Tx) error {
		if _, err := t.many(`UPDATE log_anchor SET seq = ?, head = ?, sealed = ? WHERE one = 1`, at, head, sealed); err != nil {
			return fmt.Errorf("reset anchor: %w", err)
		}
		return nil
	})
}

// SetAnchor stores a log head the vault saw. A head before the stored one
// changes nothing: two callers may come out of order.
func (d *DB) SetAnchor(ctx context.Context, seq uint64, head, sealed []byte) error {
	at, err := number(seq)
	if err != nil {
		return fmt.Errorf("set anchor: %w", err)
	}
	return d.Change(ctx, func(t *Tx) error {
		if _, err := t.many(`UPDATE log_anchor SET seq = ?, head = ?, sealed = ? WHERE one = 1 AND seq <= ?`, at, head, sealed, at); err != nil {
			return fmt.Errorf("set anchor: %w", err)
		}
		return nil
	})
}
