package store

import (
	"context"
	"database/sql"
	"fmt"
)

// What is sealed outside the vault's rows is a box of vault.Seal whose use is
// one of these and whose additional data is the row's id: as text, for a batch
// its 16 bytes, for told Told.Key, for the anchor none. Whoever seals keeps to it, so that a Swap
// can seal it anew.
const (
	UseRun    = "run"
	UseEpoch  = "epoch"
	UseGrant  = "grant"
	UseAction = "action"
	UseResult = "result"
	UseBatch  = "outbox"
	UseTold   = "told"
	UseAnchor = "anchor"
)

// sealedColumns are where those boxes lie.
var sealedColumns = []struct{ use, table, key, box, where string }{
	{UseRun, "runs", "id", "sealed", "sealed IS NOT NULL"},
	{UseEpoch, "epochs", "id", "sealed", "sealed IS NOT NULL"},
	{UseGrant, "grants", "id", "sealed", "sealed IS NOT NULL"},
	{UseAction, "actions", "id", "sealed", "sealed IS NOT NULL"},
	{UseResult, "actions", "id", "result", "result IS NOT NULL"},
	{UseBatch, "outbox", "id", "body", "sealed = 1"},
	{UseTold, "told", "run || ' ' || seq", "body", "sealed = 1"},
}

type resealer func(use string, ad, box []byte) ([]byte, error)

// reseal passes every box through f. One that f refuses stays as it is.
func (t *Tx) reseal(f resealer) error {
	for _, c := range sealedColumns {
		read := fmt.Sprintf(`SELECT rowid, %s, %s FROM %s WHERE rowid > ? AND %s ORDER BY rowid LIMIT 256`, c.key, c.box, c.table, c.where)
		write, err := t.tx.PrepareContext(t.ctx, fmt.Sprintf(`UPDATE %s SET %s = ? WHERE rowid = ?`, c.table, c.box))
		if err != nil {
			return fmt.Errorf("reseal %s: %w", c.table, err)
		}
		if err := t.resealEach(f, c.use, read, write); err != nil {
			return fmt.Errorf("reseal %s: %w", c.table, err)
		}
	}
	var box []byte
	if err := t.tx.QueryRowContext(t.ctx, `SELECT sealed FROM log_anchor WHERE one = 1`).Scan(&box); err != nil {
		return fmt.Errorf("reseal log_anchor: %w", err)
	}
	if box == nil {
		return nil
	}
	if next, err := f(UseAnchor, nil, box); err == nil {
		return t.one(`UPDATE log_anchor SET sealed = ? WHERE one = 1`, next)
	}
	return nil
}

// boxed is one row of a sealed column.
type boxed struct {
	at      int64
	id, box []byte
}

func (t *Tx) resealEach(f resealer, use, read string, write *sql.Stmt) error {
	defer write.Close()
	for after := int64(-1 << 63); ; {
		page, err := collect(t.ctx, t.tx, func(rs *sql.Rows) (b boxed, err error) {
			err = rs.Scan(&b.at, &b.id, &b.box)
			return b, err
		}, read, after)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, b := range page {
			after = b.at
			next, err := f(use, b.id, b.box)
			if err != nil {
				continue
			}
			if _, err := write.ExecContext(t.ctx, next, b.at); err != nil {
				return err
			}
		}
	}
}

// carried is what of a database outlives the restoring of a backup over it: the
// state of its runs (what was revoked since must stay so) and the batches that
// the log does not have yet.
type carried struct {
	runs    []Run
	batches []Batch
}

func (d *DB) carry(ctx context.Context) (c carried, err error) {
	if c.runs, err = d.Runs(ctx); err != nil {
		return carried{}, err
	}
	c.batches, err = d.Pending(ctx)
	return c, err
}

// bring writes what was carried, in the place of what the backup says of it.
// What f can't open is of no use to anybody and left out.
func (t *Tx) bring(c carried, f resealer) error {
	for _, r := range c.runs {
		if r.Sealed != nil {
			var err error
			if r.Sealed, err = f(UseRun, []byte(r.ID), r.Sealed); err != nil {
				continue
			}
		}
		if err := t.one(`INSERT INTO runs (id, state, opened, changed, sealed) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET state = excluded.state, changed = excluded.changed,
			sealed = coalesce(excluded.sealed, sealed)`,
			r.ID, r.State, stamp(r.Opened), stamp(r.Changed), r.Sealed); err != nil {
			return fmt.Errorf("carry run: %w", err)
		}
	}
	for _, b := range c.batches {
		if b.Sealed {
			var err error
			if b.Body, err = f(UseBatch, b.ID[:], b.Body); err != nil {
				continue
			}
		}
		if _, err := t.many(`INSERT INTO outbox (id, sealed, body) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			b.ID[:], b.Sealed, notNil(b.Body)); err != nil {
			return fmt.Errorf("carry batch: %w", err)
		}
	}
	return nil
}
