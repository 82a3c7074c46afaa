package store

import (
	"context"
	"database/sql"
)

// Pragma reads a setting on the writing and on a reading connection.
func Pragma(ctx context.Context, d *DB, name string) (write, read string) {
	for db, into := range map[*sql.DB]*string{d.w: &write, d.r: &read} {
		if err := db.QueryRowContext(ctx, `PRAGMA `+name).Scan(into); err != nil {
			*into = err.Error()
		}
	}
	return write, read
}

// Tables returns our tables' definitions; goose's and SQLite's own are left out.
func Tables(ctx context.Context, d *DB) (map[string]string, error) {
	out := map[string]string{}
	_, err := collect(ctx, d.r, func(rs *sql.Rows) (string, error) {
		var name, def string
		err := rs.Scan(&name, &def)
		out[name] = def
		return name, err
	}, `SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'goose%' AND name NOT LIKE 'sqlite%'`)
	return out, err
}
