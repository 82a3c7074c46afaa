package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Told is one event that the log has, of a run or (Run empty) of all of them.
// Sealed says that Body can be read only with the vault's keys: it is a box of
// UseTold whose additional data is Key.
type Told struct {
	Run    string
	Seq    uint64    // in the log
	At     time.Time // of the log's commit
	Sealed bool
	Body   []byte
	Class  string // ToldCall, ToldDenied, or empty
}

// Key names the row, as additional data of its box.
func (x Told) Key() []byte { return []byte(x.Run + " " + strconv.FormatUint(x.Seq, 10)) }

// maxTold bounds what is read of a run: the latest events are.
const maxTold = 1 << 17

// Told adds events. One that is there already stays as it is.
func (t *Tx) Told(rows []Told) error {
	if len(rows) == 0 {
		return nil
	}
	add, err := t.tx.PrepareContext(t.ctx, `INSERT INTO told (run, seq, at, sealed, body, class) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
	if err != nil {
		return fmt.Errorf("add told: %w", err)
	}
	defer add.Close()
	for _, x := range rows {
		seq, err := number(x.Seq)
		if err == nil {
			_, err = add.ExecContext(t.ctx, x.Run, seq, stamp(x.At), x.Sealed, notNil(x.Body), x.Class)
		}
		if err != nil {
			return fmt.Errorf("add told: %w", err)
		}
	}
	return nil
}

// Told returns what the log was told of a run, and of all of them, oldest first.
// cut says that there was more than is returned.
func (d *DB) Told(ctx context.Context, run string) (rows []Told, cut bool, err error) {
	defer d.use()()
	rows, err = collect(ctx, d.r, func(rs *sql.Rows) (x Told, err error) {
		var at int64
		err = rs.Scan(&x.Run, &x.Seq, &at, &x.Sealed, &x.Body)
		x.At = unstamp(at)
		return x, err
	}, `SELECT run, seq, at, sealed, body FROM told WHERE run = ? OR run = '' ORDER BY at DESC, seq DESC LIMIT ?`, run, maxTold)
	if err != nil {
		return nil, false, fmt.Errorf("read told: %w", err)
	}
	slices.Reverse(rows)
	return rows, len(rows) == maxTold, nil
}

// maxForgotten bounds how many events one transaction lets go of: it holds up whoever waits for the next one.
const maxForgotten = 1 << 16

// ForgetTold drops events that the log took before t, the next call those that were too many for this one. What is known of
// a run with an unresolved action stays, to be resolved by.
func (t *Tx) ForgetTold(before time.Time) error {
	if _, err := t.many(`DELETE FROM told WHERE rowid IN (SELECT rowid FROM told INDEXED BY told_run WHERE at < ? AND
		run NOT IN (SELECT run FROM actions WHERE unresolved = 1) LIMIT ?)`, stamp(before), maxForgotten); err != nil {
		return fmt.Errorf("forget told: %w", err)
	}
	return nil
}
