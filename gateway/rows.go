package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
	"sallyport/gateway/store"
)

// storedRun is a run's row as sealed.
type storedRun struct {
	Owner string    `json:"owner"` // process key
	Agent api.Agent `json:"agent"`
	Shell bool      `json:"shell,omitzero"`
}

// facts shows the stored process where a live one's would stand.
func (s storedRun) facts() peer.Facts {
	return peer.Facts{PID: s.Agent.ProcessID, Exe: s.Agent.Command, ExeDigest: s.Agent.ExeDigest, Identity: s.Agent.Identity}
}

// putRun writes a run's row. The vault is open.
func (g *Gateway) putRun(tx *store.Tx, r *run) error {
	box, err := g.vault.Seal(store.UseRun, []byte(r.id), encode(storedRun{r.owner.key, agent(r.owner.facts), r.owner.shell}))
	if err != nil {
		return err
	}
	return tx.PutRun(store.Run{ID: r.id, State: r.stands().String(), Opened: r.opened, Changed: now().Wall, Sealed: box})
}

// moveRun brings a run's row to a state. A run without a row, first seen while the vault was locked, gets it at unlock.
func moveRun(tx *store.Tx, r *run, to authz.RunState) error {
	from, ok, err := tx.RunState(r.id)
	if err != nil || !ok || from == to.String() {
		return err
	}
	return tx.SetRun(r.id, from, to.String(), now().Wall)
}

// setRun brings a run's row to where memory is, and ends the grants that went. Losses that cross reach the row in
// another order than memory: each writes memory's last word, and may find a grant that another one has ended already.
func setRun(r *run, ended []*grant) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		for _, x := range ended {
			if err := tx.EndGrant(x.ID, "void", now().Wall); err != nil && !errors.Is(err, store.ErrConflict) {
				return err
			}
		}
		return moveRun(tx, r, r.stands())
	}
}

// loadRuns makes a revocation outlive a restart: a run keeps its state for the process that owns it. One whose process
// is gone has ended; one first seen while the vault was locked gets its row. A row that the vault did not write is none,
// and returned. g.authority is held.
func (g *Gateway) loadRuns(ctx context.Context) (forged []string, err error) {
	rows, err := g.db.Runs(ctx)
	if err != nil {
		return nil, err
	}
	var gone []store.Run
	for _, row := range rows {
		state := authz.ParseRunState(row.State)
		if g.book.byID(row.ID) != nil || state == authz.Ended {
			continue
		}
		plain, err := g.vault.Unseal(store.UseRun, []byte(row.ID), row.Sealed)
		if err != nil {
			forged = append(forged, row.ID)
			continue
		}
		var s storedRun
		if err := json.Unmarshal(plain, &s); err != nil {
			return nil, fmt.Errorf("run %s: %w", row.ID, err)
		}
		p, err := peer.Find(s.Agent.ProcessID)
		if err != nil || p.Key() != s.Owner {
			if p != nil {
				p.Close()
			}
			if state != authz.Revoked {
				gone = append(gone, row)
				continue
			}
		}
		r := g.book.restore(row, state, s)
		if err == nil && p.Key() == s.Owner {
			r.mu.Lock()
			r.roster.chief = p
			r.mu.Unlock()
			g.watch(p.Gone(), func() { g.clientGone(r); p.Close() })
		}
	}
	evs := make([]event.Event, len(gone))
	for i, row := range gone {
		evs[i] = event.RunEnded{Run: row.ID}
	}
	return forged, g.change(ctx, true, evs, func(tx *store.Tx) error {
		for _, row := range gone {
			if err := tx.SetRun(row.ID, row.State, authz.Ended.String(), now().Wall); err != nil {
				return err
			}
		}
		return g.storeSeen(tx)
	})
}

// unended lists the rows of the run's epochs that have not ended.
func (r *run) unended() (rows []store.Epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.epochs {
		if e.state != authz.EpochEnded {
			rows = append(rows, store.Epoch{ID: e.id, Run: r.id, State: e.state.String(), Opened: r.opened})
		}
	}
	return rows
}

// storeSeen writes the rows of runs and epochs first seen while the vault was locked.
func (g *Gateway) storeSeen(tx *store.Tx) error {
	for _, r := range g.book.all() {
		if _, ok, err := tx.RunState(r.id); err != nil {
			return err
		} else if !ok {
			if err := g.putRun(tx, r); err != nil {
				return err
			}
		}
		for _, e := range r.unended() {
			if err := tx.PutEpoch(e); err != nil {
				return err
			}
		}
	}
	return nil
}
