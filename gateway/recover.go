package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
	"sallyport/gateway/store"
	"sallyport/vault"
)

// recover opens the log beside a vault that exists, and makes both say the same: what a crash left open is told as
// unresolved, what it left untold is told, and every grant is void. It works while the vault is locked.
func (g *Gateway) recover(ctx context.Context) error {
	w, left, err := auditlog.Open(g.cfg.Home.Log(), auditlog.Options{})
	if errors.Is(err, auditlog.ErrNoLog) {
		return fmt.Errorf("open audit log: the vault is here and its log is gone; put the folder back before starting: %w", err)
	}
	if err != nil {
		return fmt.Errorf("open audit log: %w", err)
	}
	g.log.w.Store(w)
	if err := g.compareAnchor(ctx); err != nil {
		return err
	}
	var unresolved []auditlog.Entry
	for _, r := range left {
		ev := event.ToolUnresolved{Action: actionID(r.Subject), Outcome: "sent_unconfirmed", Cause: "restart"}
		unresolved = append(unresolved, auditlog.Entry{Kind: auditlog.Result, Subject: r.Subject, Body: event.Encode(ev)})
	}
	if len(unresolved) > 0 {
		if _, err := g.log.append(ctx, unresolved...); err != nil {
			return err
		}
	}
	if err := g.drain(ctx); err != nil {
		return err
	}
	if err := g.voidRows(ctx); err != nil {
		return fmt.Errorf("void grants: %w", err)
	}
	return g.log.note(ctx, "", event.GatewayStarted{Version: g.cfg.Version, ProcessID: os.Getpid(), Recovered: len(left)})
}

// voidRows ends every grant's row; a run that was active by one is pending.
func (g *Gateway) voidRows(ctx context.Context) error {
	runs, err := g.db.Runs(ctx)
	if err != nil {
		return err
	}
	return g.db.Change(ctx, func(tx *store.Tx) error {
		for _, r := range runs {
			if r.State != authz.Active.String() {
				continue
			}
			if err := tx.SetRun(r.ID, r.State, authz.Pending.String(), now().Wall); err != nil {
				return err
			}
		}
		_, err := tx.EndAllGrants("restart", now().Wall)
		return err
	})
}

// compareAnchor refuses a log that ends before the head the vault last saw: it was cut or put back.
func (g *Gateway) compareAnchor(ctx context.Context) error {
	seq, _, _, err := g.db.Anchor(ctx)
	if err != nil {
		return err
	}
	if have := g.log.head(); have.Seq < seq {
		return fmt.Errorf("audit log ends at record %d, and the vault has seen record %d: the log was cut or replaced; restore it before starting", have.Seq, seq)
	}
	return nil
}

// anchor writes down the log's head in the vault's database: its lower bound, in the clear for the next start and
// sealed for the next unlock. A locked vault keeps the one it has.
func (g *Gateway) anchor(ctx context.Context) error {
	h := g.log.head()
	if h.Seq == 0 || g.vault.State() != vault.Ready {
		return nil
	}
	box, err := g.vault.Seal(useAnchor, nil, encode(h.Seq))
	if err != nil {
		return err
	}
	return g.db.SetAnchor(ctx, h.Seq, h.Hash[:], box)
}

// useAnchor is the vault's key for the sealed anchor.
const useAnchor = "anchor"

// bounds compares vault and log both ways, and says what contradicts: the log has seen change counter of the vault, and
// the vault has sealed a head of the log.
func (g *Gateway) bounds(ctx context.Context, counter uint64) (contradiction string, err error) {
	if have := g.vault.Snapshot().Counter; counter > have {
		return fmt.Sprintf("the log has seen change %d of the vault, the vault is at %d: it was put back to an older copy", counter, have), nil
	}
	clear, _, box, err := g.db.Anchor(ctx)
	if err != nil || clear == 0 && box == nil {
		return "", err
	}
	var sealed uint64
	plain, err := g.vault.Unseal(useAnchor, nil, box)
	if err == nil {
		err = json.Unmarshal(plain, &sealed)
	}
	if err != nil || sealed != clear {
		return "the vault's record of the log's head was changed", nil
	}
	if have := g.log.head().Seq; have < sealed {
		return fmt.Sprintf("the vault has seen record %d of the log, the log is at %d: it was cut or put back", sealed, have), nil
	}
	return "", nil
}

func (g *Gateway) anchorEvery(ctx context.Context, d time.Duration) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			g.complain("anchor", g.anchor(ctx))
		}
	}
}

// initialize makes vault and log: keys in memory, then audit.pub, signer and first segment, then the vault's first
// transaction with the log's identity in it. Killed anywhere before that, there is no vault, and the next init replaces the log.
func (g *Gateway) initialize(ctx context.Context, passphrase []byte) (api.Created, error) {
	g.door.Lock()
	defer g.door.Unlock()
	if g.vault.State() != vault.Absent {
		return api.Created{}, api.Fail("exists", "there is a vault already")
	}
	draft, err := g.vault.Prepare(vault.Passphrase(passphrase), vault.CreateOptions{WorkFactor: g.cfg.WorkFactor})
	if err != nil {
		return api.Created{}, err
	}
	id, err := auditlog.NewIdentity()
	if err != nil {
		return api.Created{}, err
	}
	reader, recipient, err := auditlog.NewReader()
	if err != nil {
		return api.Created{}, err
	}
	dir := g.cfg.Home.Log()
	w, err := auditlog.Create(dir, id, "sallyport/"+draft.VaultID, []string{recipient, draft.RecoveryRecipient}, auditlog.Options{})
	if err != nil {
		return api.Created{}, fmt.Errorf("create audit log: %w", err)
	}
	g.log.w.Store(w)
	evs := []event.Event{
		event.GatewayStarted{Version: g.cfg.Version, ProcessID: os.Getpid(), AbsentCalls: int(g.log.absent.Load())},
		event.VaultCreated{VaultID: draft.VaultID},
	}
	b, err := g.batch(true, evs) // ids and numbers alone: clear
	if err == nil {
		err = draft.Commit(ctx, map[string][]byte{logIdentity: id}, b.Bytes())
	}
	if err != nil {
		return api.Created{}, errors.Join(fmt.Errorf("create vault: %w", err), g.log.close())
	}
	g.authority.Lock()
	defer g.authority.Unlock()
	if err := g.tell(ctx, b.ID, evs); err != nil {
		return api.Created{}, err
	}
	if err := g.anchor(ctx); err != nil {
		return api.Created{}, err
	}
	pub, fingerprint, err := readPub(g.cfg.Home)
	if err != nil {
		return api.Created{}, err
	}
	g.open.Store(true)
	return api.Created{VaultID: draft.VaultID, RecoveryIdentity: draft.RecoveryIdentity, ReaderIdentity: reader, AuditPub: pub, Fingerprint: fingerprint}, nil
}

// logIdentity is the log's identity key among the vault's internal secrets.
const logIdentity = "log identity"

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

const useRun = "run"

// putRun writes a run's row. The vault is open.
func (g *Gateway) putRun(tx *store.Tx, r *run) error {
	box, err := g.vault.Seal(useRun, []byte(r.id), encode(storedRun{r.owner.key, agent(r.owner.facts), r.owner.shell}))
	if err != nil {
		return err
	}
	if err := tx.PutRun(store.Run{ID: r.id, State: r.state.String(), Opened: r.opened, Changed: now().Wall, Sealed: box}); err != nil {
		return err
	}
	r.stored.Store(true)
	return nil
}

// loadRuns makes a revocation outlive a restart: a run keeps its state for the process that owns it. One whose process
// is gone has ended; one first seen while the vault was locked gets its row. g.authority is held.
func (g *Gateway) loadRuns(ctx context.Context) error {
	rows, err := g.db.Runs(ctx)
	if err != nil {
		return err
	}
	var gone []store.Run
	for _, row := range rows {
		state := authz.ParseRunState(row.State)
		if g.book.byID(row.ID) != nil || state == authz.Ended {
			continue
		}
		plain, err := g.vault.Unseal(useRun, []byte(row.ID), row.Sealed)
		if err != nil {
			return fmt.Errorf("run %s: %w", row.ID, err)
		}
		var s storedRun
		if err := json.Unmarshal(plain, &s); err != nil {
			return fmt.Errorf("run %s: %w", row.ID, err)
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
			g.watch(p.Gone(), func() { g.clientGone(r); p.Close() })
		}
	}
	evs := make([]event.Event, len(gone))
	for i, row := range gone {
		evs[i] = event.RunEnded{Run: row.ID}
	}
	return g.change(ctx, true, evs, func(tx *store.Tx) error {
		for _, row := range gone {
			if err := tx.SetRun(row.ID, row.State, authz.Ended.String(), now().Wall); err != nil {
				return err
			}
		}
		return g.storeSeen(tx)
	})
}

// storeSeen writes the rows of runs and epochs first seen while the vault was locked.
func (g *Gateway) storeSeen(tx *store.Tx) error {
	for _, r := range g.book.all() {
		r.mu.Lock()
		epochs := slices.Clone(r.epochs)
		r.mu.Unlock()
		if !r.stored.Load() {
			if err := g.putRun(tx, r); err != nil {
				return err
			}
		}
		for _, e := range epochs {
			if e.stored.Load() || e.state == authz.EpochEnded {
				continue
			}
			if err := tx.PutEpoch(store.Epoch{ID: e.id, Run: r.id, State: e.state.String(), Opened: r.opened}); err != nil {
				return err
			}
			e.stored.Store(true)
		}
	}
	return nil
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
	err = errors.Join(err, g.lose(ctx, []event.Event{event.VaultLocked{Operator: operator, Reason: reason}}, g.endAll("vault_locked", moved)))
	g.authority.Unlock()
	err = errors.Join(err, g.anchor(ctx))
	g.vault.Lock()
	return err
}

// stopped is the last record of a gateway's life.
func (g *Gateway) stopped(ctx context.Context, moved []*run) error {
	g.authority.Lock()
	defer g.authority.Unlock()
	err := g.db.Change(ctx, g.endAll("gateway_stopped", moved))
	err = errors.Join(err, g.log.note(ctx, "", event.GatewayStopped{Reason: "stop"}))
	return errors.Join(err, g.anchor(ctx))
}
