package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
)

// adopt checks a database that came from elsewhere and brings its schema up to
// date. ErrNewer, ErrInvalid.
func adopt(ctx context.Context, name string) error {
	if err := refuseNewer(ctx, name); err != nil {
		return adopted(err)
	}
	db, err := connect(name, "rw", 1)
	if err != nil {
		return err
	}
	return errors.Join(adopted(fit(ctx, db)), db.Close())
}

// adopted makes what SQLite says of a foreign file an ErrInvalid.
func adopted(err error) error {
	if err == nil || errors.Is(err, ErrNewer) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("no database of ours: %w: %w", ErrInvalid, err)
}

// fit says whether a database is sound, and after migration exactly what a new
// one is.
func fit(ctx context.Context, db *sql.DB) error {
	if err := refuseTriggers(ctx, db); err != nil { // before anything is written
		return err
	}
	for _, check := range []string{`PRAGMA integrity_check(1)`, `SELECT 'breach' FROM pragma_foreign_key_check`} {
		var found string
		err := db.QueryRowContext(ctx, check).Scan(&found)
		switch {
		case errors.Is(err, sql.ErrNoRows) || found == "ok":
		case err != nil:
			return err
		default:
			return fmt.Errorf("its rows do not fit together: %s", found)
		}
	}
	if err := migrate(ctx, db); err != nil {
		return err
	}
	fresh, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		return err
	}
	defer fresh.Close()
	fresh.SetMaxOpenConns(1) // each connection would be a database of its own
	if err := migrate(ctx, fresh); err != nil {
		return err
	}
	want, err := schema(ctx, fresh)
	if err != nil {
		return err
	}
	have, err := schema(ctx, db)
	if err != nil {
		return err
	}
	if !maps.Equal(have, want) {
		return errors.New("its tables are not ours")
	}
	return nil
}

// schema is every definition by its name.
func schema(ctx context.Context, db *sql.DB) (map[string]string, error) {
	out := map[string]string{}
	_, err := collect(ctx, db, func(rs *sql.Rows) (struct{}, error) {
		var name, def string
		err := rs.Scan(&name, &def)
		out[name] = def
		return struct{}{}, err
	}, `SELECT name, coalesce(sql, '') FROM sqlite_schema`)
	return out, err
}
