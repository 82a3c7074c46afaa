package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"sallyport/vault"
)

// Beside the database may lie, until the next Open if the program was killed,
// one that is being built and one that is being copied.
const (
	nextSuffix = ".next"
	copySuffix = ".copy"
)

// restored is the state of grants that a restored backup had.
const restored = "restored"

// Copy is vault.Store's. The file it reads has no name any more.
func (d *DB) Copy(ctx context.Context) (io.ReadCloser, error) {
	d.copies.Lock()
	defer d.copies.Unlock()
	name := d.path + copySuffix
	err := d.vacuum(ctx, name)
	var f *os.File
	if err == nil {
		f, err = os.Open(name)
	}
	if err = errors.Join(err, clean(name)); err != nil {
		if f != nil {
			f.Close()
		}
		return nil, fmt.Errorf("copy database: %w", err)
	}
	return f, nil
}

// vacuum writes what the database holds at this moment to a new file, without
// the WAL and without what was deleted.
func (d *DB) vacuum(ctx context.Context, name string) error {
	if err := create(name, nil, 0); err != nil {
		return err
	}
	defer d.use()()
	if d.closed {
		return errClosed
	}
	db, err := connect(d.path, "rw", 1) // a connection that only queries may not even write elsewhere
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `VACUUM INTO ?`, name)
	return errors.Join(err, db.Close())
}

// create makes a private file of at most limit bytes of from.
func create(name string, from io.Reader, limit int64) error {
	if err := clean(name); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if from == nil {
		return nil
	}
	src := &source{r: io.LimitReader(from, limit+1)}
	n, err := io.Copy(f, src)
	switch {
	case src.err != nil:
		return fmt.Errorf("read it: %w: %w", ErrInvalid, src.err)
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("nothing in it: %w", ErrInvalid)
	case n > limit:
		return fmt.Errorf("more than %d bytes: %w", limit, ErrInvalid)
	}
	return f.Close()
}

// source remembers that it was reading that failed, not writing.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// clean removes a database and what SQLite keeps beside it.
func clean(name string) error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(name + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Swap is vault.Store's. The database stays open: changes by others wait until
// the new one is in place, reads only while it is put there.
func (d *DB) Swap(ctx context.Context, s vault.Swap) error {
	d.swaps.Lock()
	defer d.swaps.Unlock()
	if err := d.swap(ctx, s, d.path+nextSuffix); err != nil {
		return fmt.Errorf("replace database: %w", errors.Join(err, clean(d.path+nextSuffix)))
	}
	return nil
}

func (d *DB) swap(ctx context.Context, s vault.Swap, next string) error {
	if s.From != nil { // may take as long as somebody sends: changes go on
		if err := create(next, s.From, s.Limit); err != nil {
			return err
		}
		if err := adopt(ctx, next); err != nil {
			return err
		}
	}
	d.changes.Lock()
	defer d.changes.Unlock()
	if s.From == nil {
		if err := d.vacuum(ctx, next); err != nil {
			return err
		}
	}
	if err := d.fill(ctx, s, next); err != nil {
		return err
	}
	if err := settled(next); err != nil {
		return err
	}
	if err := inspect(ctx, next, s.Verify); err != nil {
		return err
	}
	if err := settled(next); err != nil { // looking wrote nothing, and left nothing
		return err
	}
	return d.place(context.WithoutCancel(ctx), next)
}

// fill makes the new database's content, in one transaction.
func (d *DB) fill(ctx context.Context, s vault.Swap, next string) error {
	db, err := connect(next, "rw", 1)
	if err != nil {
		return err
	}
	n := &DB{path: next, w: db, r: db}
	rows, base, err := n.Load(ctx)
	if err == nil {
		rows, base, err = s.Edit(rows, base)
	}
	var present carried
	if err == nil && s.From != nil {
		present, err = d.carry(ctx)
	}
	if err == nil {
		err = n.Change(ctx, func(t *Tx) error {
			var also []byte
			if s.Also != nil {
				var err error
				if also, err = s.Also(); err != nil {
					return err
				}
			}
			if err := t.fill(rows, base, also); err != nil {
				return err
			}
			if s.From != nil {
				if _, err := t.EndAllGrants(restored, time.Now()); err != nil {
					return err
				}
				if err := t.bring(present, s.Reseal); err != nil {
					return err
				}
			}
			return t.reseal(s.Reseal)
		})
	}
	return errors.Join(err, db.Close())
}

func (t *Tx) fill(rows []vault.Row, counter uint64, also []byte) error {
	at, err := number(counter)
	if err != nil {
		return err
	}
	if _, err := t.many(`DELETE FROM vault_rows`); err != nil {
		return err
	}
	if err := t.one(`UPDATE vault_counter SET counter = ? WHERE one = 1`, at); err != nil {
		return err
	}
	return t.store(rows, also)
}

// settled says that a file is all there is of its database, on the disk.
func settled(name string) error {
	for _, suffix := range []string{"-wal", "-journal"} {
		if _, err := os.Lstat(name + suffix); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(ErrInUse, err)
		}
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// inspect reads a database back from its file.
func inspect(ctx context.Context, name string, verify func([]vault.Row, uint64) error) error {
	db, err := connect(name, "rw", 1)
	if err != nil {
		return err
	}
	rows, base, err := (&DB{w: db, r: db}).Load(ctx)
	if err == nil {
		err = verify(rows, base)
	}
	return errors.Join(err, db.Close())
}

// place puts next where the database is. Nobody uses the pools meanwhile. A WAL
// left beside the new file would be taken for its own, so the old one must be
// gone, durably, before the one step that counts.
func (d *DB) place(ctx context.Context, next string) error {
	d.pools.Lock()
	defer d.pools.Unlock()
	if d.closed {
		return errClosed
	}
	err := d.quiesce(ctx)
	if err == nil {
		err = syncFolder(d.path)
	}
	if err == nil {
		err = os.Rename(next, d.path)
	}
	if err == nil {
		err = syncFolder(d.path)
	}
	return errors.Join(err, d.reopen(ctx))
}

// quiesce writes the WAL back and closes both pools.
func (d *DB) quiesce(ctx context.Context) error {
	err := d.r.Close()
	var busy, pages, done int
	if err == nil {
		err = d.w.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &pages, &done)
	}
	if err == nil && busy != 0 {
		err = ErrInUse
	}
	if err = errors.Join(err, d.w.Close()); err != nil {
		return err
	}
	return settled(d.path)
}

// reopen is Open's end, on what is in place.
func (d *DB) reopen(ctx context.Context) (err error) {
	if d.w, err = connect(d.path, "rw", 1); err != nil {
		return err
	}
	if d.r, err = connect(d.path, "ro", 4); err != nil {
		return err
	}
	return d.w.PingContext(ctx)
}
