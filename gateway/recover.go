package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/store"
)

// recover opens the log beside a vault that exists, and makes both say the same: what a crash left open is told as
// unresolved, what it left untold is told, and every grant is void. It works while the vault is locked.
func (g *Gateway) recover(ctx context.Context) error {
	left, err := g.openLog()
	if err != nil || g.log.w.Load() == nil {
		return err
	}
	if err := g.reconcile(ctx, left); err != nil {
		return err
	}
	return g.toldStart(ctx, left)
}

// toldStart tells that this gateway goes on with the log.
func (g *Gateway) toldStart(ctx context.Context, left []auditlog.Record) error {
	return g.log.note(ctx, "", event.GatewayStarted{Version: g.cfg.Version, ProcessID: os.Getpid(), Recovered: len(left)})
}

// openLog opens the log and returns the intents that have no result. A log that can't be used quarantines the vault.
func (g *Gateway) openLog() (left []auditlog.Record, err error) {
	w, left, err := auditlog.Open(g.cfg.Home.Log(), g.logOptions())
	if errors.Is(err, auditlog.ErrNoLog) {
		// Nothing can be recorded, so nothing is done: only the operator's word makes a new log beside this vault.
		return nil, g.withoutLog("its audit log is gone: put the folder back, or accept that with `sp vault release --accept-log-head`")
	}
	if _, tampered := errors.AsType[*auditlog.TamperError](err); tampered || errors.Is(err, auditlog.ErrTruncated) {
		return nil, g.withoutLog(err.Error() + ": look with `sp audit verify` and put the folder back, or keep it aside and begin a new log with `sp vault release --accept-log-head`")
	}
	if err != nil {
		return nil, err
	}
	g.log.w.Store(w)
	return left, nil
}

// reconcile makes database and log say the same.
func (g *Gateway) reconcile(ctx context.Context, left []auditlog.Record) error {
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
	return nil
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

// logOptions let each segment's header state the vault's counter: a lower bound that needs no key to be read.
func (g *Gateway) logOptions() auditlog.Options {
	return auditlog.Options{Counter: func() uint64 {
		if s := g.vault.Snapshot(); s != nil {
			return s.Counter
		}
		return 0
	}}
}

// withoutLog quarantines the vault: what can't be recorded is not done.
func (g *Gateway) withoutLog(why string) error {
	g.log.gone = why
	g.vault.Quarantine(why)
	return nil
}

// compareAnchor quarantines beside a log that ends before the head the vault last saw: it was cut or put back.
func (g *Gateway) compareAnchor(ctx context.Context) error {
	seq, _, _, err := g.db.Anchor(ctx)
	if err != nil {
		return err
	}
	if have := g.log.head(); have.Seq < seq {
		reason := fmt.Sprintf("the audit log ends at record %d and the vault has seen record %d: put the log back, or accept it as it is with `sp vault release --accept-log-head`", have.Seq, seq)
		g.vault.Quarantine(reason)
		return g.log.note(ctx, "", event.VaultQuarantined{Reason: reason})
	}
	return nil
}

// stopped is the last record of a gateway's life.
func (g *Gateway) stopped(ctx context.Context, moved []*run) error {
	g.authority.Lock()
	defer g.authority.Unlock()
	err := g.db.Change(ctx, g.endAll("gateway_stopped", moved))
	ev := event.GatewayStopped{Reason: "stop"}
	if by := g.stopper.Load(); by != nil {
		ev.Operator, ev.Peer = by.operator, by.peer
	}
	err = errors.Join(err, g.log.note(ctx, "", ev))
	return errors.Join(err, g.anchor(ctx))
}
