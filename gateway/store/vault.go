package store

import (
	"context"
	"database/sql"
	"fmt"

	"sallyport/vault"
)

// maxVault bounds the rows together, in Commit as in Load: they are small and
// few, and a file grown by somebody else must not end the daemon.
const maxVault = 64 << 20

// bounded says whether the rows are within maxVault.
func bounded(ctx context.Context, tx *sql.Tx) error {
	var size int64
	if err := tx.QueryRowContext(ctx, `SELECT coalesce(sum(length(id) + length(class) + length(data)), 0) FROM vault_rows`).Scan(&size); err != nil {
		return fmt.Errorf("size: %w", err)
	}
	if size > maxVault {
		return fmt.Errorf("%d bytes of rows, limit %d: %w", size, maxVault, ErrInvalid)
	}
	return nil
}

// Load is vault.Store's.
func (d *DB) Load(ctx context.Context) ([]vault.Row, uint64, error) {
	defer d.use()()
	tx, err := d.r.BeginTx(ctx, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("load vault: %w", err)
	}
	defer tx.Rollback()
	var base uint64
	if err := tx.QueryRowContext(ctx, `SELECT counter FROM vault_counter WHERE one = 1`).Scan(&base); err != nil {
		return nil, 0, fmt.Errorf("load vault: counter: %w", err)
	}
	if err := bounded(ctx, tx); err != nil {
		return nil, 0, fmt.Errorf("load vault: %w", err)
	}
	rows, err := collect(ctx, tx, func(rs *sql.Rows) (r vault.Row, err error) {
		err = rs.Scan(&r.ID, &r.Table, &r.Version, &r.Data)
		return r, err
	}, `SELECT id, class, version, data FROM vault_rows ORDER BY id`)
	if err != nil {
		return nil, 0, fmt.Errorf("load vault: %w", err)
	}
	return rows, base, nil
}

// Commit is vault.Store's. also, if not nil, is the Bytes of a Batch.
func (d *DB) Commit(ctx context.Context, base uint64, put []vault.Row, drop []string, also []byte) error {
	from, err := number(base)
	if err != nil {
		return fmt.Errorf("commit vault: %w", err)
	}
	return d.Change(ctx, func(t *Tx) error {
		if err := t.one(`UPDATE vault_counter SET counter = counter + 1 WHERE one = 1 AND counter = ?`, from); err != nil {
			return fmt.Errorf("raise counter: %w", err)
		}
		for _, id := range drop {
			if err := t.one(`DELETE FROM vault_rows WHERE id = ?`, id); err != nil {
				return fmt.Errorf("drop row: %w", err)
			}
		}
		return t.store(put, also)
	})
}

// store writes rows and a batch, within the bounds.
func (t *Tx) store(put []vault.Row, also []byte) error {
	for _, r := range put {
		version, err := number(r.Version)
		if err != nil {
			return fmt.Errorf("put row: %w", err)
		}
		if err := t.one(`INSERT INTO vault_rows (id, class, version, data) VALUES (?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET version = excluded.version, data = excluded.data
			WHERE class = excluded.class`, r.ID, r.Table, version, r.Data); err != nil {
			return fmt.Errorf("put row: %w", err)
		}
	}
	if err := bounded(t.ctx, t.tx); err != nil {
		return err
	}
	if also == nil {
		return nil
	}
	b, err := ParseBatch(also)
	if err != nil {
		return err
	}
	return t.Outbox(b)
}
