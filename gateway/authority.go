package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/store"
	"sallyport/vault"
)

// Authority lives in the database. A change of it is one transaction that also leaves its events in the outbox; then
// the log gets them, then the outbox row goes. What is gained counts in memory only after that; what is lost counts in
// memory before. g.authority keeps the outbox's order and the log's the same.

// batch packs events for the outbox. Clear batches hold only ids, states, times and digests, so that they can be told to the
// log while the vault is locked; everything else is sealed.
func (g *Gateway) batch(clear bool, evs []event.Event) (store.Batch, error) {
	body := encode(func() (raw []jsontext.Value) {
		for _, e := range evs {
			raw = append(raw, event.Encode(e))
		}
		return raw
	}())
	b := store.Batch{ID: [16]byte(ulid.Make()), Body: body}
	if clear {
		return b, nil
	}
	box, err := g.vault.Seal(store.UseBatch, b.ID[:], body)
	if err != nil {
		return store.Batch{}, err
	}
	b.Sealed, b.Body = true, box
	return b, nil
}

// change does one change of authority: f's rows and the events, then the log. g.authority must be held.
func (g *Gateway) change(ctx context.Context, clear bool, evs []event.Event, f func(*store.Tx) error) error {
	ctx = context.WithoutCancel(ctx)
	if len(evs) == 0 {
		return g.db.Change(ctx, f)
	}
	b, err := g.batch(clear, evs)
	if err != nil {
		return err
	}
	err = g.db.Change(ctx, func(tx *store.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		return tx.Outbox(b)
	})
	if err != nil {
		return fmt.Errorf("write authority: %w", err)
	}
	return g.tell(ctx, b, evs)
}

// changeVault is change for the vault's own rows: write commits them together with the outbox batch it is given.
func (g *Gateway) changeVault(ctx context.Context, evs []event.Event, write func(ctx context.Context, also []byte) error) error {
	b, err := g.batch(false, evs)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if err := write(ctx, b.Bytes()); err != nil {
		return err
	}
	return g.tell(ctx, b, evs)
}

// tell moves one batch from the outbox to the log. What is clear is a loss, or the beginning of a log; what is sealed may
// have changed the vault, so it states the vault's counter: an older vault beside this log is found by it.
func (g *Gateway) tell(ctx context.Context, b store.Batch, evs []event.Event) error {
	entries := losses(b.ID, evs)
	if b.Sealed {
		entries = notes(b.ID, evs)
		entries[0].Own = g.sealOwn(own{})
	}
	last, at, err := g.log.write(ctx, entries...)
	if err != nil {
		return err
	}
	g.lastTold = last
	return g.logged(ctx, b, last-uint64(len(evs)-1), at, evs)
}

// logged drops a batch from the outbox and keeps its events as the rows of what the log has, from first on.
func (g *Gateway) logged(ctx context.Context, b store.Batch, first uint64, at time.Time, evs []event.Event) error {
	rows, err := g.toldRows(b, first, at, evs)
	if err != nil {
		return err
	}
	return g.db.Logged(ctx, b.ID, rows...)
}

// drain tells the log what a crash left in the outbox: clear batches always, sealed ones once the vault is open.
// A batch that the log already has (the crash fell between the two) is only dropped.
func (g *Gateway) drain(ctx context.Context) error {
	pending, err := g.db.Pending(ctx)
	if err != nil || len(pending) == 0 {
		return err
	}
	told, err := g.batchesTold(ctx)
	if err != nil {
		return err
	}
	for _, b := range pending {
		if b.Sealed && !g.open.Load() && !g.opening.Load() {
			// Order holds among clear ones: what is sealed waits, and nothing is allowed before it is told.
			continue
		}
		evs, err := g.unpack(b)
		if has, ok := told[b.ID]; ok {
			if err != nil {
				evs = nil // the log has it, whatever became of its copy here
			}
			if err := g.logged(ctx, b, has.Seq, has.Time, evs); err != nil {
				return err
			}
			continue
		}
		if err != nil && b.Sealed && g.vault.State() != vault.Ready {
			return fmt.Errorf("outbox batch %s: %w", ulid.ULID(b.ID), err)
		}
		if err != nil {
			if err := g.dropForged(ctx, b); err != nil {
				return fmt.Errorf("outbox batch %s: %w", ulid.ULID(b.ID), err)
			}
			continue
		}
		if err := g.tell(ctx, b, evs); err != nil {
			return err
		}
	}
	return nil
}

// dropForged records a batch that this vault did not write, in its place. It is ignored, as its rows would be: one that
// stood in the way of every start would be worth more to whoever wrote it.
func (g *Gateway) dropForged(ctx context.Context, b store.Batch) error {
	if err := g.tellForged(ctx, []string{ulid.ULID(b.ID).String()}); err != nil {
		return err
	}
	return g.db.Logged(ctx, b.ID)
}

// waitsClear tells whether an event may be in a clear batch: losses, and the beginning of a vault. Whoever can write to
// the database could tell others as easily, so none of those is believed from there.
func waitsClear(e event.Event) bool {
	switch e.(type) {
	case event.GatewayStarted, event.VaultCreated, event.VaultRestored, event.VaultLocked, event.RunOrphaned, event.RunEnded, event.RunDenied,
		event.RunRevoked, event.EpochEnded, event.GrantRevoked, event.ApprovalDenied:
		return true
	}
	return false
}

var errForgedBatch = errors.New("a clear batch holds an event that is only ever sealed")

func (g *Gateway) unpack(b store.Batch) ([]event.Event, error) {
	body := b.Body
	if b.Sealed {
		var err error
		if body, err = g.vault.Unseal(store.UseBatch, b.ID[:], b.Body); err != nil {
			return nil, err
		}
	}
	var raw []jsontext.Value
	if err := json.Unmarshal(body, &raw); err != nil {
		return nil, err
	}
	evs := make([]event.Event, len(raw))
	for i, r := range raw {
		var err error
		if evs[i], err = event.Decode(r); err != nil {
			return nil, err
		}
		if !b.Sealed && !waitsClear(evs[i]) {
			return nil, errForgedBatch
		}
	}
	return evs, nil
}

// batchesTold lists the outbox batches the log holds after the applied position: the first note with their subject.
func (g *Gateway) batchesTold(ctx context.Context) (map[[16]byte]auditlog.Record, error) {
	applied, err := g.db.Applied(ctx)
	if err != nil {
		return nil, err
	}
	out := map[[16]byte]auditlog.Record{}
	for r, err := range g.log.w.Load().Own(applied) {
		if err != nil {
			return nil, err
		}
		if _, ok := out[r.Subject]; r.Kind == auditlog.Note && !ok {
			out[r.Subject] = r
		}
	}
	return out, nil
}
