package store

import (
	"context"
	"database/sql"
	"fmt"
)

// Batch is events that must reach the log together with the change whose
// transaction holds them. ID is the log record's subject. Sealed says that
// Body can be read only with the vault's keys.
type Batch struct {
	ID     [16]byte
	Sealed bool
	Body   []byte // at most 1 MiB
}

const (
	batchForm = 1
	maxBody   = 1 << 20
)

// Bytes is the form a Batch passes through the vault in:
//
//	1 | sealed (0 or 1) | id (16) | body
func (b Batch) Bytes() []byte {
	out := make([]byte, 2, 18+len(b.Body))
	out[0] = batchForm
	if b.Sealed {
		out[1] = 1
	}
	return append(append(out, b.ID[:]...), b.Body...)
}

// ParseBatch reads what Bytes wrote. ErrInvalid.
func ParseBatch(b []byte) (Batch, error) {
	if len(b) < 18 || len(b) > 18+maxBody || b[0] != batchForm || b[1] > 1 {
		return Batch{}, fmt.Errorf("parse batch of %d bytes: %w", len(b), ErrInvalid)
	}
	return Batch{ID: [16]byte(b[2:18]), Sealed: b[1] == 1, Body: append([]byte{}, b[18:]...)}, nil
}

// Outbox adds b to the batches that the log does not have yet.
func (t *Tx) Outbox(b Batch) error {
	if b.ID == [16]byte{} || len(b.Body) > maxBody {
		return fmt.Errorf("add to outbox: %w", ErrInvalid)
	}
	if err := t.one(`INSERT INTO outbox (id, sealed, body) VALUES (?, ?, ?)`, b.ID[:], b.Sealed, notNil(b.Body)); err != nil {
		return fmt.Errorf("add to outbox: %w", err)
	}
	return nil
}

// notNil keeps an empty blob from becoming NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Pending returns the batches that the log does not have yet, oldest first.
func (d *DB) Pending(ctx context.Context) ([]Batch, error) {
	defer d.use()()
	out, err := collect(ctx, d.r, func(rs *sql.Rows) (b Batch, err error) {
		var id []byte
		if err := rs.Scan(&id, &b.Sealed, &b.Body); err != nil {
			return Batch{}, err
		}
		if len(id) != 16 {
			return Batch{}, fmt.Errorf("id of %d bytes: %w", len(id), ErrInvalid)
		}
		b.ID = [16]byte(id)
		return b, nil
	}, `SELECT id, sealed, body FROM outbox ORDER BY seq`)
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	return out, nil
}

// Logged drops a batch that the log has, and keeps its events as told. A batch
// already dropped is no error.
func (d *DB) Logged(ctx context.Context, id [16]byte, rows ...Told) error {
	return d.Change(ctx, func(t *Tx) error {
		if err := t.Told(rows); err != nil {
			return err
		}
		if _, err := t.many(`DELETE FROM outbox WHERE id = ?`, id[:]); err != nil {
			return fmt.Errorf("drop from outbox: %w", err)
		}
		return nil
	})
}
