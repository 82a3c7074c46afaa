package store

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"
)

// Tx is one write transaction. It is valid only inside the function it was
// given to.
type Tx struct {
	ctx context.Context // the one Change was called with: a Tx never outlives it
	tx  *sql.Tx
}

// Change runs f in one transaction, durable on return. If f returns an error
// or panics, nothing is changed.
func (d *DB) Change(ctx context.Context, f func(*Tx) error) error {
	d.changes.RLock()
	defer d.changes.RUnlock()
	defer d.use()()
	tx, err := d.w.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("change database: %w", err)
	}
	defer tx.Rollback() // after Commit it does nothing
	if err := f(&Tx{ctx, tx}); err != nil {
		return fmt.Errorf("change database: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("change database: %w", err)
	}
	return nil
}

// one runs a statement that must touch exactly one row: the guard of every
// change of state. Otherwise ErrConflict.
func (t *Tx) one(query string, args ...any) error {
	n, err := t.many(query, args...)
	if err == nil && n != 1 {
		err = ErrConflict
	}
	return err
}

func (t *Tx) many(query string, args ...any) (int64, error) {
	r, err := t.tx.ExecContext(t.ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// number stores a uint64 where SQLite has an int64.
func number(n uint64) (int64, error) {
	if n > math.MaxInt64 {
		return 0, fmt.Errorf("number above 2^63-1: %w", ErrInvalid)
	}
	return int64(n), nil
}

// stamp stores a time: nanoseconds since 1970 UTC, 0 for the zero time.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func unstamp(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// collect reads all rows of a query.
func collect[T any](ctx context.Context, db querier, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// querier is *sql.DB or *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}
