// Package store is the one owner of *sql.DB: vault.db, its schema, and what is
// written together. It is concrete, and knows neither keys nor the meaning of
// the states it keeps.
//
// One connection writes, each write being one immediate transaction made
// durable by WAL with synchronous=FULL; a few others read. Nothing here decides
// authority: rows are tombstones, history and sealed bytes.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	_ "github.com/mattn/go-sqlite3" // the driver
	"github.com/pressly/goose/v3"

	"sallyport/migrations"
	"sallyport/vault"
)

// Errors that a caller chooses on. All are returned wrapped.
var (
	ErrNewer    = errors.New("database was written by a newer program")
	ErrConflict = vault.ErrConflict // a guarded change found another state
	ErrInvalid  = vault.ErrInvalid  // malformed, or too much
	ErrInUse    = errors.New("database is open in another program")
	errClosed   = errors.New("database is closed")
)

// DB is safe for concurrent use. Locks are taken in the order of the fields.
type DB struct {
	path    string
	swaps   sync.Mutex   // one Swap at a time
	copies  sync.Mutex   // one copy in the making
	changes sync.RWMutex // a Swap excludes changes while it builds,
	pools   sync.RWMutex // and everything while it puts its file in place
	w       *sql.DB      // one connection
	r       *sql.DB
	closed  bool // under pools
	uses    atomic.Uint64
}

var _ vault.Store = (*DB)(nil)

// Open opens or creates the database at path, whose folder must exist, makes
// it private (0600) and brings its schema up to date. ErrNewer leaves the file
// as it is.
func Open(ctx context.Context, path string) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := errors.Join(clean(path+nextSuffix), clean(path+copySuffix)); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := private(path); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := refuseNewer(ctx, path); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	d := &DB{path: path}
	if d.w, err = connect(path, "rwc", 1); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := migrate(ctx, d.w); err != nil {
		return nil, fmt.Errorf("open database: %w", errors.Join(err, d.w.Close()))
	}
	if d.r, err = connect(path, "ro", 4); err != nil {
		return nil, fmt.Errorf("open database: %w", errors.Join(err, d.w.Close()))
	}
	return d, nil
}

// Close writes the WAL back and closes.
func (d *DB) Close() error {
	d.pools.Lock()
	defer d.pools.Unlock()
	d.closed = true
	if err := errors.Join(d.r.Close(), d.w.Close()); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}

// use keeps the pools as they are until the func it returns is called.
func (d *DB) use() func() {
	d.uses.Add(1)
	d.pools.RLock()
	return d.pools.RUnlock
}

// Uses counts what the database was asked to do since it was opened: calls of agents must not be among it.
func (d *DB) Uses() uint64 { return d.uses.Load() }

// connect opens a pool of n connections. The path is escaped: SQLite reads it
// as a URI, where ? # and % mean something.
func connect(path, mode string, n int) (*sql.DB, error) {
	q := url.Values{
		"mode":           {mode},
		"_busy_timeout":  {"5000"},
		"_foreign_keys":  {"on"},
		"_secure_delete": {"on"},
		"_synchronous":   {"FULL"},
	}
	switch mode {
	case "ro":
		q.Set("_query_only", "on")
	case "undo": // what a crash left half written, and nothing else
		q.Set("mode", "rw")
	default:
		q.Set("_journal_mode", "WAL")
		q.Set("_txlock", "immediate")
	}
	db, err := sql.Open("sqlite3", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// private makes the file, durably, or takes group and others their rights to
// it. SQLite gives the WAL the same mode.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return tighten(path)
	}
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return syncFolder(path)
}

// syncFolder makes durable what names the folder of path holds.
func syncFolder(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func tighten(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil {
		return err
	}
	if !i.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	if i.Mode().Perm()&0o077 != 0 {
		return f.Chmod(0o600)
	}
	return nil
}

// refuseNewer reads the schema versions without a chance to write: goose passes
// a file silently that is ahead of its migrations.
func refuseNewer(ctx context.Context, path string) error {
	if i, err := os.Stat(path); err != nil || i.Size() == 0 {
		return err
	}
	mode := "ro"
	if _, err := os.Lstat(path + "-journal"); err == nil {
		mode = "undo" // the file's first moments have no WAL, and only who may write can undo a killed one
	}
	db, err := connect(path, mode, 1)
	if err != nil {
		return err
	}
	defer db.Close()
	var n int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?`,
		goose.DefaultTablename).Scan(&n); err != nil {
		return err
	}
	if n == 0 {
		return nil
	}
	known, err := versions()
	if err != nil {
		return err
	}
	rows, err := db.QueryContext(ctx, `SELECT version_id FROM `+goose.DefaultTablename+` WHERE is_applied`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var v int64
		if err := rows.Scan(&v); err != nil {
			return err
		}
		if !known[v] {
			return fmt.Errorf("schema %d: %w", v, ErrNewer)
		}
	}
	return rows.Err()
}

// versions are the schemas this program knows; 0 is goose's own first row.
func versions() (map[int64]bool, error) {
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		return nil, err
	}
	known := map[int64]bool{0: true}
	for _, name := range names {
		v, err := goose.NumericComponent(name)
		if err != nil {
			return nil, err
		}
		known[v] = true
	}
	return known, nil
}

// migrate applies what is missing, each file in a transaction of its own. A
// file older than the last applied one is an error: a release never brings one.
func migrate(ctx context.Context, db *sql.DB) error {
	p, err := goose.NewProvider(goose.DialectSQLite3, db, migrations.FS,
		goose.WithDisableGlobalRegistry(true), goose.WithAllowOutofOrder(false))
	if err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return err
	}
	return refuseTriggers(ctx, db)
}

// refuseTriggers: no migration makes a trigger or view. One that is there was
// put there to change what we write, such as to empty the outbox.
func refuseTriggers(ctx context.Context, db *sql.DB) error {
	var n int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE type NOT IN ('table', 'index')`).Scan(&n); err != nil {
		return err
	}
	if n != 0 {
		return fmt.Errorf("%d triggers or views that are not ours: %w", n, ErrInvalid)
	}
	return nil
}
