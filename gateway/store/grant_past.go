package store

import (
	"context"
	"database/sql"
	"fmt"
)

// LatestGrants returns the n latest grants of all runs, ended ones too, oldest first.
func (d *DB) LatestGrants(ctx context.Context, n int) ([]Grant, error) {
	defer d.use()()
	out, err := collect(ctx, d.r, func(rs *sql.Rows) (g Grant, err error) {
		var issued, ended int64
		err = rs.Scan(&g.ID, &g.Run, &g.Epoch, &g.State, &issued, &ended, &g.Sealed)
		g.Issued, g.Ended = unstamp(issued), unstamp(ended)
		return g, err
	}, `SELECT * FROM (SELECT id, run, epoch, state, issued, ended, sealed FROM grants ORDER BY id DESC LIMIT ?) ORDER BY id`, n)
	if err != nil {
		return nil, fmt.Errorf("read latest grants: %w", err)
	}
	return out, nil
}
