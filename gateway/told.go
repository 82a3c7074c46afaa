package gateway

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/store"
	"sallyport/vault"
)

// The gateway can't read its own log back: it holds no reader's identity. So what the log was told of a run is kept in
// rows too, each with its sequence and its commit's time, sealed where it says something. An incident record is made
// from them. They are secondary to the log: a reader compares both.
//
// Authority reaches its rows in the transaction that empties the outbox, and calls are rebuilt from the log's own parts,
// so a crash loses neither. The rest is written behind, within a second.

// told collects what the log took, until it is written behind. The zero value is ready.
type told struct {
	mu      sync.Mutex
	waiting []toldEvent
	lost    int // events for which there was no room, all of them in the log
}

// toldEvent is one event as the log has it.
type toldEvent struct {
	seq  uint64
	at   time.Time
	body []byte
}

// maxTold bounds what waits: while the vault is locked nothing can be sealed.
const maxTold = 1 << 15

// keep takes what one append made durable; last is the sequence of its last entry.
func (t *told) keep(last uint64, at time.Time, e []auditlog.Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, x := range e {
		if len(t.waiting) >= maxTold {
			t.lost++
			continue
		}
		t.waiting = append(t.waiting, toldEvent{last - uint64(len(e)-1-i), at, x.Body})
	}
}

// take hands out what waits; giveBack returns what could not be written.
func (t *told) take() []toldEvent {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.waiting
	t.waiting = nil
	return out
}

func (t *told) giveBack(evs []toldEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = append(evs, t.waiting...)
}

// waits is a copy of what is not written yet.
func (t *told) waits() ([]toldEvent, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.waiting), t.lost
}

// everyRun are the events that concern all runs, or name an action alone. clearTold hold ids,
// states, times and digests only.
var (
	everyRun = []string{"gateway_started", "gateway_stopped", "vault_locked", "vault_unlocked", "vault_quarantined", "vault_released",
		"tool_unresolved", "tool_resolved"}
	clearTold = append([]string{"run_orphaned", "run_ended", "run_denied", "run_revoked", "epoch_ended", "grant_revoked", "approval_denied", "incident_recorded"}, everyRun...)
)

// about says whose row an event is: a run's, or of every run (""). ok is false for what no run's record wants.
func about(body []byte) (run string, clear, ok bool) {
	var e struct{ Type, Run string }
	if json.Unmarshal(body, &e, json.MatchCaseInsensitiveNames(true)) != nil {
		return "", false, false
	}
	return e.Run, slices.Contains(clearTold, e.Type), e.Run != "" || slices.Contains(everyRun, e.Type)
}

// classOf is what people look through all runs for: the first member of every event's bytes is its type.
func classOf(body []byte) string {
	switch {
	case bytes.HasPrefix(body, []byte(`{"type":"tool_called"`)):
		return store.ToldCall
	case bytes.HasPrefix(body, []byte(`{"type":"authorization_denied"`)):
		return store.ToldDenied
	}
	return ""
}

// toldRow makes a row; sealed unless it is clear.
func (g *Gateway) toldRow(e toldEvent, run string, clear bool) (store.Told, error) {
	row := store.Told{Run: run, Seq: e.seq, At: e.at, Body: e.body, Class: classOf(e.body)}
	if clear {
		return row, nil
	}
	box, err := g.vault.Seal(store.UseTold, row.Key(), e.body)
	if err != nil {
		return store.Told{}, fmt.Errorf("seal told: %w", err)
	}
	row.Sealed, row.Body = true, box
	return row, nil
}

// toldRows are the rows of a batch that the log has from first on. What is clear in the outbox is clear here.
func (g *Gateway) toldRows(b store.Batch, first uint64, at time.Time, evs []event.Event) ([]store.Told, error) {
	var rows []store.Told
	for i, ev := range evs {
		body := event.Encode(ev)
		run, _, ok := about(body)
		if !ok {
			continue
		}
		row, err := g.toldRow(toldEvent{first + uint64(i), at, body}, run, !b.Sealed)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// keepTold writes behind until ctx ends.
func (g *Gateway) keepTold(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			g.complain("write behind what the log was told", g.flushTold(ctx))
		}
	}
}

// flushTold writes what waits. While the vault is locked that is what is clear.
func (g *Gateway) flushTold(ctx context.Context) error {
	g.authority.Lock() // a box sealed before the vault's keys change is written before, too
	defer g.authority.Unlock()
	return g.flushToldHeld(ctx)
}

// flushToldHeld is flushTold for whoever holds g.authority. It comes before the applied position moves: what is behind
// that is not read back from the log.
func (g *Gateway) flushToldHeld(ctx context.Context) error {
	evs := g.log.told.take()
	open := g.vault.State() == vault.Ready
	var rows []store.Told
	var later []toldEvent
	for _, e := range evs {
		run, clear, ok := about(e.body)
		switch {
		case !ok:
			continue
		case !clear && !open:
			later = append(later, e)
			continue
		}
		row, err := g.toldRow(e, run, clear)
		if err != nil {
			g.log.told.giveBack(evs)
			return err
		}
		rows = append(rows, row)
	}
	if len(rows) > 0 {
		if err := g.db.Change(context.WithoutCancel(ctx), func(tx *store.Tx) error { return tx.Told(rows) }); err != nil {
			g.log.told.giveBack(evs)
			return err
		}
	}
	g.log.told.giveBack(later)
	return nil
}

// retold is what the own part of a record says of its event: what an incident record needs, and no more. A row that was
// written whole before the crash stands.
func retold(r auditlog.Record, o own) event.Event {
	id := actionID(r.Subject)
	switch r.Kind {
	case auditlog.Note:
		return event.JobChanged{Action: id, Run: o.Run, Epoch: o.Epoch, JobID: o.Job, Outcome: o.Outcome}
	case auditlog.Result:
		return event.ToolFinished{Action: id, Run: o.Run, Epoch: o.Epoch, Outcome: o.Outcome, Status: o.Deed.Status, Exit: o.Deed.Exit,
			Reason: o.Deed.Reason, JobID: o.Job}
	}
	return event.ToolCalled{
		Call:  event.Call{Action: id, Run: o.Run, Epoch: o.Epoch, Tool: o.Tool, Credential: o.Cred, Target: o.Target, Operation: o.Deed.Operation},
		Grant: o.Deed.Grant, Approval: o.Deed.Approval, IdempotencyKey: o.Key,
	}
}

// tell adds the row of a record whose own part was read back.
func (p *replayed) tell(g *Gateway, r auditlog.Record, o own) error {
	if o.Run == "" {
		return nil
	}
	row, err := g.toldRow(toldEvent{r.Seq, r.Time, event.Encode(retold(r, o))}, o.Run, false)
	if err != nil {
		return fmt.Errorf("record %d: %w", r.Seq, err)
	}
	p.told = append(p.told, row)
	return nil
}

// toldOf reads what is known of a run, oldest first: its rows, and what still waits for them. unknown says what can't be
// shown, and why.
func (g *Gateway) toldOf(ctx context.Context, run string) (items []event.Item, unknown []string, err error) {
	rows, cut, err := g.db.Told(ctx, run)
	if err != nil {
		return nil, nil, err
	}
	if cut {
		unknown = append(unknown, fmt.Sprintf("more is recorded of this run than the latest %d events, which are shown", len(rows)))
	}
	var sealed, broken []uint64
	take := func(seq uint64, at time.Time, body []byte) {
		ev, err := event.Decode(body)
		if err != nil {
			broken = append(broken, seq)
			return
		}
		items = append(items, event.Item{Seq: seq, Time: at, Event: ev})
	}
	for _, row := range rows {
		body := row.Body
		if row.Sealed {
			if g.vault.State() != vault.Ready {
				sealed = append(sealed, row.Seq)
				continue
			}
			if body, err = g.vault.Unseal(store.UseTold, row.Key(), row.Body); err != nil {
				broken = append(broken, row.Seq)
				continue
			}
		}
		take(row.Seq, row.At, body)
	}
	waiting, lost := g.log.told.waits()
	for _, e := range waiting {
		if of, _, ok := about(e.body); ok && (of == run || of == "") {
			take(e.seq, e.at, e.body)
		}
	}
	if n := len(sealed); n > 0 {
		unknown = append(unknown, fmt.Sprintf("%d rows are sealed while the vault is locked, records %d to %d: unlock, or read the log with --identity", n, sealed[0], sealed[n-1]))
	}
	if n := len(broken); n > 0 {
		unknown = append(unknown, fmt.Sprintf("%d rows were changed or cannot be read, the first is of record %d: read the log with --identity", n, broken[0]))
	}
	if lost > 0 {
		unknown = append(unknown, fmt.Sprintf("%d events of all runs are in the log alone: read it with --identity", lost))
	}
	slices.SortStableFunc(items, func(a, b event.Item) int {
		if c := a.Time.Compare(b.Time); c != 0 {
			return c
		}
		return int(a.Seq) - int(b.Seq)
	})
	return items, unknown, nil
}
