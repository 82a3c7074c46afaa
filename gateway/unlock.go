package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/store"
	"sallyport/vault"
)

// unlock opens the vault and makes memory what rows and log say. Only its last step lets anything be allowed.
func (g *Gateway) unlock(ctx context.Context, key vault.Key, operator string) error {
	g.door.Lock()
	defer g.door.Unlock()
	switch g.vault.State() {
	case vault.Absent:
		return api.Fail("vault_absent", "")
	case vault.Ready:
		return wrongIs(g.vault.Check(ctx, key)) // already open, and whoever asks may know
	}
	return g.openVault(ctx, key, &opening{done: func() event.Event { return event.VaultUnlocked{Operator: operator} }})
}

// opening is how a vault is opened: by unlock, by release or after a restore.
type opening struct {
	accept   func() error       // if not nil, stands in the place of comparing vault and log
	restored bool               // a backup is in place: what no key of it opens in the log is passed over, as after accept
	passed   int                // so many records
	done     func() event.Event // what is recorded in the end
}

// openVault is unlock's work, and release's, and restore's. g.door is held.
func (g *Gateway) openVault(ctx context.Context, key vault.Key, o *opening) error {
	if err := g.vault.Unlock(ctx, key); err != nil {
		if errors.Is(err, vault.ErrQuarantined) {
			return g.quarantined(ctx, g.vault.Reason())
		}
		return wrongIs(err)
	}
	g.authority.Lock()
	defer g.authority.Unlock()
	g.opening.Store(true)
	defer g.opening.Store(false)
	err := g.rebuild(ctx, o)
	if err == nil {
		err = g.tellPasskeys(ctx, o.restored || o.accept != nil)
	}
	if err == nil {
		err = g.log.note(ctx, "", o.done())
	}
	if err != nil {
		g.vault.Lock() // a quarantined one stays so
		return err
	}
	g.complain("follow the settings", g.follow(ctx))
	g.complain("read past approvals", g.loadPast(ctx))
	g.complain("anchor", g.anchor(ctx))
	g.attended()
	g.open.Store(true)
	g.complain("watch jobs", g.watchJobs(ctx))
	return nil
}

// quarantined records why, and says so.
func (g *Gateway) quarantined(ctx context.Context, reason string) error {
	g.complain("record quarantine", g.log.note(ctx, "", event.VaultQuarantined{Reason: reason}))
	return api.Fail("vault_quarantined", reason)
}

// rebuild replays the log's own parts into the actions table, tells the sealed outbox, compares the two lower bounds,
// and takes runs and unresolved writes into memory. g.authority is held.
func (g *Gateway) rebuild(ctx context.Context, o *opening) error {
	if o.accept != nil {
		if err := o.accept(); err != nil {
			return err
		}
	}
	if g.log.w.Load() == nil {
		g.vault.Quarantine(g.log.gone)
		return api.Fail("vault_quarantined", g.log.gone)
	}
	if err := g.drain(ctx); err != nil {
		return err
	}
	todo, err := g.redo(ctx, o.restored || o.accept != nil)
	if errors.Is(err, errForeignOwn) { // nobody but a later vault's key wrote there
		g.vault.Quarantine(err.Error())
		return g.quarantined(ctx, err.Error())
	}
	if err != nil {
		return fmt.Errorf("replay the log: %w", err)
	}
	if o.passed = todo.passed; o.accept == nil {
		// Before anything is written: what was replayed is not looked at again.
		reason, err := g.bounds(ctx, todo.counter)
		if err != nil {
			return err
		}
		if reason != "" {
			g.vault.Quarantine(reason)
			return g.quarantined(ctx, reason)
		}
	}
	if err := g.db.Redo(ctx, todo.upto, todo.rows); err != nil {
		return err
	}
	if err := g.db.Change(ctx, func(tx *store.Tx) error { return tx.Told(todo.told) }); err != nil {
		return err
	}
	forged := slices.Clone(g.vault.Forged())
	runs, err := g.loadRuns(ctx)
	if err != nil {
		return err
	}
	forged = append(forged, runs...)
	rows, err := g.db.Unresolved(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		k, err := g.openKept(row)
		if err != nil {
			forged = append(forged, row.ID)
			continue
		}
		g.acts.remember(k)
	}
	return g.tellForged(ctx, forged)
}

// tellForged records rows that nobody with the vault's key wrote. They are ignored: whoever can write them could as well
// have deleted what they stand for.
func (g *Gateway) tellForged(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	g.cfg.Log.Warn("rows that this vault did not write are ignored", "rows", len(ids))
	e := event.RowsForged{}
	for _, id := range ids[:min(len(ids), 64)] {
		e.Rows = append(e.Rows, escape(id, 64))
	}
	return g.log.note(ctx, "", e)
}

// replayed is what own parts after the applied position say.
type replayed struct {
	rows    []store.Action
	told    []store.Told
	upto    uint64 // the last record looked at
	counter uint64 // the highest manifest counter named
	passed  int    // records whose own part no key of this vault opens
}

// errForeignOwn: a rekey happened that this vault knows nothing of.
var errForeignOwn = errors.New("of the log was sealed by a key that this vault does not have: the vault was put back to an older copy")

// redo reads own parts after the applied position; it writes nothing. Lenient: the vault may be older than a rekey that
// sealed some: those are passed over, and only the log's readers know what they tell.
func (g *Gateway) redo(ctx context.Context, lenient bool) (replayed, error) {
	applied, err := g.db.Applied(ctx)
	if err != nil {
		return replayed{}, err
	}
	out := replayed{upto: applied}
	rows := map[[16]byte]*store.Action{}
	for r, err := range g.log.w.Load().Own(applied) {
		if err != nil {
			return replayed{}, err
		}
		out.upto = max(out.upto, r.Seq)
		o, err := g.openOwn(r)
		if err != nil && lenient {
			out.passed++
			continue
		}
		if err != nil {
			return replayed{}, fmt.Errorf("record %d %w", r.Seq, errForeignOwn)
		}
		out.counter = max(out.counter, o.Counter)
		row := rows[r.Subject]
		if r.Kind == auditlog.Note {
			if o.Outcome == "" {
				continue
			}
			if rows[r.Subject], err = g.redoJob(ctx, row, r, o); err != nil {
				return replayed{}, fmt.Errorf("record %d: %w", r.Seq, err)
			}
			if err := out.tell(g, r, o); err != nil {
				return replayed{}, err
			}
			continue
		}
		if row == nil {
			row = &store.Action{ID: actionID(r.Subject), State: api.Done, Outcome: "sent_unconfirmed", Started: r.Time, Unresolved: true}
			rows[r.Subject] = row
		}
		row.Seq = r.Seq
		if err := g.redoRecord(row, r, o); err != nil {
			return replayed{}, fmt.Errorf("record %d: %w", r.Seq, err)
		}
		if err := out.tell(g, r, o); err != nil {
			return replayed{}, err
		}
	}
	for _, row := range rows {
		out.rows = append(out.rows, *row)
	}
	return out, nil
}

// openOwn opens a record's own part; the zero value where it has none.
func (g *Gateway) openOwn(r auditlog.Record) (o own, err error) {
	if len(r.Own) == 0 {
		return own{}, nil
	}
	plain, err := g.vault.Unseal(useOwn, nil, r.Own)
	if err != nil {
		return own{}, err
	}
	err = json.Unmarshal(plain, &o, json.RejectUnknownMembers(true))
	return o, err
}

// redoRecord takes one intent or result into its row.
func (g *Gateway) redoRecord(row *store.Action, r auditlog.Record, o own) error {
	if r.Kind == auditlog.Result {
		row.Finished = r.Time
	}
	if len(r.Own) == 0 {
		return nil // tool_unresolved, written while locked: the intent's own part said the rest
	}
	row.Run, row.Epoch = o.Run, o.Epoch
	doc := api.Action{ID: row.ID, AgentRun: o.Run, ExecutionEpoch: o.Epoch, Tool: o.Tool, Target: o.Target, Credential: o.Cred,
		Outcome: "sent_unconfirmed", StartedAt: row.Started, FinishedAt: row.Finished}
	if r.Kind == auditlog.Result {
		row.Outcome, doc.Outcome = o.Outcome, o.Outcome
	} else {
		doc.Error = api.Fail("gateway_restarted", "")
		doc.Error.Action = row.ID
	}
	if doc.JobID = o.Job; o.Tool == api.ToolJob && r.Kind == auditlog.Intent {
		doc.JobID = hostJob(row.ID) // it may have started: its id finds it
	}
	row.State = standing(o.Tool, row.Outcome, doc.JobID)
	doc.State = row.State
	row.Unresolved = row.Outcome == "sent_unconfirmed" && !o.Read
	return g.sealKept(row, keptAction{Doc: doc, Digest: o.Digest, EffectKey: o.EffectKey, Key: o.Key})
}

// redoJob takes what became known of a job into its action's row, which may be one of before.
func (g *Gateway) redoJob(ctx context.Context, row *store.Action, r auditlog.Record, o own) (*store.Action, error) {
	if row == nil {
		old, ok, err := g.db.ActionByID(ctx, actionID(r.Subject))
		if err != nil {
			return nil, err
		}
		if !ok { // its row was kept long enough
			old = store.Action{ID: actionID(r.Subject), Run: o.Run, Epoch: o.Epoch, State: api.Done, Started: r.Time, Finished: r.Time}
		}
		row = &old
	}
	k := keptAction{Doc: api.Action{ID: row.ID, AgentRun: o.Run, ExecutionEpoch: o.Epoch, Tool: o.Tool, Target: o.Target, Credential: o.Cred,
		State: row.State, StartedAt: row.Started, FinishedAt: row.Finished}}
	if len(row.Sealed) > 0 {
		var err error
		if k, err = g.openKept(*row); err != nil {
			return nil, err
		}
	}
	k.Doc.Outcome, k.Doc.JobID, row.Outcome, row.Seq = o.Outcome, o.Job, o.Outcome, r.Seq
	if o.Ended {
		k.Doc.State, k.Doc.FinishedAt, row.State, row.Finished = api.Done, r.Time, api.Done, r.Time
	}
	return row, g.sealKept(row, k)
}

// lock closes the vault: gate first, then row and event, then the key. A write that fails stops none of it.
func (g *Gateway) lock(ctx context.Context, by word, reason string) error {
	g.door.Lock()
	defer g.door.Unlock()
	return g.lockNow(ctx, by, reason)
}

// lockNow is lock's work. g.door is held.
func (g *Gateway) lockNow(ctx context.Context, by word, reason string) error {
	switch g.vault.State() {
	case vault.Absent:
		return api.Fail("vault_absent", "")
	case vault.Locked, vault.Quarantined:
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	moved, err := g.shutGate(ctx, "vault_locked")
	g.authority.Lock()
	defer g.authority.Unlock() // whoever changes the vault holds it, so none of them meets a vault that is going
	return errors.Join(err, g.closeVault(ctx, by, reason, moved))
}

// closeVault records that the vault is closed, and wipes its key whatever becomes of that. The gate is shut, and g.authority held.
func (g *Gateway) closeVault(ctx context.Context, by word, reason string, moved []*run) error {
	err := g.lose(ctx, []event.Event{event.VaultLocked{Operator: by.operator, Reason: reason, Peer: by.peer}}, g.endAll("vault_locked", moved))
	err = errors.Join(err, g.anchor(ctx), g.log.w.Load().Identify(nil))
	g.vault.Lock()
	return err
}
