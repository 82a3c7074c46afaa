package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/store"
	"sallyport/vault"
)

// unlock opens the vault and makes memory what rows and log say. Only its last step lets anything be allowed.
func (g *Gateway) unlock(ctx context.Context, passphrase []byte, operator string) error {
	g.door.Lock()
	defer g.door.Unlock()
	switch g.vault.State() {
	case vault.Absent:
		return api.Fail("vault_absent", "")
	case vault.Ready:
		if err := g.checkPassphrase(ctx, passphrase); err != nil {
			return err
		}
		return nil // already open, and whoever asks may know
	}
	if err := g.vault.Unlock(ctx, vault.Passphrase(passphrase)); err != nil {
		if errors.Is(err, vault.ErrQuarantined) {
			g.complain("record quarantine", g.log.note(ctx, "", event.VaultQuarantined{Reason: err.Error()}))
			return api.Fail("vault_quarantined", err.Error())
		}
		return wrongIs(err)
	}
	g.authority.Lock()
	defer g.authority.Unlock()
	g.opening.Store(true)
	defer g.opening.Store(false)
	if err := g.rebuild(ctx); err != nil {
		g.vault.Lock()
		return fmt.Errorf("rebuild after unlock: %w", err)
	}
	if g.vault.State() != vault.Ready {
		return api.Fail("vault_quarantined", g.vault.Reason())
	}
	if err := g.log.note(ctx, "", event.VaultUnlocked{Operator: operator}); err != nil {
		g.vault.Lock()
		return err
	}
	g.complain("anchor", g.anchor(ctx))
	g.open.Store(true)
	return nil
}

// rebuild replays the log's own parts into the actions table, tells the sealed outbox, compares the two lower bounds,
// and takes runs and unresolved writes into memory. g.authority is held.
func (g *Gateway) rebuild(ctx context.Context) error {
	if err := g.drain(ctx); err != nil {
		return err
	}
	counter, err := g.redo(ctx)
	if err != nil {
		return err
	}
	reason, err := g.bounds(ctx, counter)
	if err != nil {
		return err
	}
	if reason != "" {
		g.vault.Quarantine(reason)
		return g.log.note(ctx, "", event.VaultQuarantined{Reason: reason})
	}
	if forged := g.vault.Forged(); len(forged) > 0 {
		g.cfg.Log.Warn("rows that this vault did not write are ignored", "rows", forged)
	}
	if err := g.loadRuns(ctx); err != nil {
		return err
	}
	rows, err := g.db.Unresolved(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		k, err := g.openKept(row)
		if err != nil {
			return err
		}
		g.acts.remember(k)
	}
	return nil
}

// redo replays own parts after the applied position; it returns the highest manifest counter they name.
func (g *Gateway) redo(ctx context.Context) (counter uint64, err error) {
	applied, err := g.db.Applied(ctx)
	if err != nil {
		return 0, err
	}
	rows := map[[16]byte]*store.Action{}
	upto := applied
	for r, err := range g.log.w.Load().Own(applied) {
		if err != nil {
			return 0, err
		}
		upto = max(upto, r.Seq)
		if r.Kind == auditlog.Note {
			continue
		}
		row := rows[r.Subject]
		if row == nil {
			row = &store.Action{ID: actionID(r.Subject), State: api.Done, Outcome: "sent_unconfirmed", Started: r.Time, Unresolved: true}
			rows[r.Subject] = row
		}
		row.Seq = r.Seq
		n, err := g.redo1(row, r)
		if err != nil {
			return 0, fmt.Errorf("record %d: %w", r.Seq, err)
		}
		counter = max(counter, n)
	}
	list := make([]store.Action, 0, len(rows))
	for _, row := range rows {
		list = append(list, *row)
	}
	return counter, g.db.Redo(ctx, upto, list)
}

// redo1 takes one intent or result into its row.
func (g *Gateway) redo1(row *store.Action, r auditlog.Record) (counter uint64, err error) {
	if r.Kind == auditlog.Result {
		row.Finished = r.Time
	}
	if len(r.Own) == 0 {
		return 0, nil // tool_unresolved, written while locked: the intent's own part said the rest
	}
	plain, err := g.vault.Unseal(useOwn, nil, r.Own)
	if err != nil {
		return 0, err
	}
	var o own
	if err := json.Unmarshal(plain, &o, json.RejectUnknownMembers(true)); err != nil {
		return 0, err
	}
	row.Run, row.Epoch = o.Run, o.Epoch
	doc := api.Action{ID: row.ID, AgentRun: o.Run, ExecutionEpoch: o.Epoch, Tool: o.Tool, Target: o.Target, Credential: o.Cred,
		State: api.Done, Outcome: "sent_unconfirmed", StartedAt: row.Started, FinishedAt: row.Finished}
	if r.Kind == auditlog.Result {
		row.Outcome, doc.Outcome = o.Outcome, o.Outcome
	} else {
		doc.Error = api.Fail("gateway_restarted", "")
		doc.Error.Action = row.ID
	}
	row.Unresolved = row.Outcome == "sent_unconfirmed" && !o.Read
	row.Sealed, err = g.sealKept(keptAction{doc, o.Digest, o.EffectKey})
	return o.Counter, err
}

// lock closes the vault: gate first, then row and event, then the key. A write that fails stops none of it.
func (g *Gateway) lock(ctx context.Context, operator, reason string) error {
	g.door.Lock()
	defer g.door.Unlock()
	switch g.vault.State() {
	case vault.Absent:
		return api.Fail("vault_absent", "")
	case vault.Locked, vault.Quarantined:
		return nil
	}
	moved, err := g.shutGate(ctx, "vault_locked")
	g.authority.Lock()
	defer g.authority.Unlock() // whoever changes the vault holds it, so none of them meets a vault that is going
	err = errors.Join(err, g.lose(ctx, []event.Event{event.VaultLocked{Operator: operator, Reason: reason}}, g.endAll("vault_locked", moved)))
	err = errors.Join(err, g.anchor(ctx))
	g.vault.Lock()
	return err
}
