// Package migrations holds the schema of vault.db as goose files, named by the
// time they were written (UTC). A file that was released is never edited.
//
// In the clear are opaque ids, states, counters and times; everything else is
// sealed by the vault. Times are Unix nanoseconds, 0 for "not yet".
package migrations

import "embed"

// FS has the files at its root.
//
//go:embed *.sql
var FS embed.FS
