package gateway

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/oklog/ulid/v2"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/store"
	"sallyport/vault"
)

// release takes the vault out of quarantine by the operator's proof, which opens a slot. Everything is compared anew,
// unless the operator accepts the log (or its absence) as it is: then the vault's lower bound becomes the log's end, and
// what the log says of a newer vault is no contradiction any more. Either way it is recorded.
func (g *Gateway) release(ctx context.Context, key vault.Key, operator string, acceptLog bool) error {
	g.door.Lock()
	defer g.door.Unlock()
	if g.vault.State() != vault.Quarantined {
		return api.Fail("invalid_request", "the vault is "+g.vault.State().String()+", not quarantined; there is nothing to release")
	}
	done := event.VaultReleased{Reason: g.vault.Reason(), Operator: operator, AcceptedLog: acceptLog}
	g.vault.Release()
	o := opening{done: func() event.Event { return done }}
	if acceptLog {
		o.accept = func() (err error) {
			if done.LogSeen, _, _, err = g.db.Anchor(ctx); err != nil {
				return err
			}
			if err := g.newLog(ctx); err != nil {
				return err
			}
			done.LogEnd = g.log.head().Seq
			return g.acceptHead(ctx)
		}
	}
	err := g.openVault(ctx, key, &o)
	if err != nil && g.vault.State() == vault.Locked {
		g.vault.Quarantine(done.Reason) // not by a wrong passphrase
	}
	return err
}

// newLog makes a log of the same identity where there is none. The vault is open.
func (g *Gateway) newLog(ctx context.Context) error {
	if g.log.w.Load() != nil {
		return nil
	}
	m, err := g.maker(ctx)
	if err != nil {
		return err
	}
	set, err := readSettings(g.vault.Snapshot())
	if err != nil {
		return err
	}
	all, err := g.sealedTo(ctx, set.Recipients)
	if err != nil {
		return err
	}
	// A name of its own: it has another recovery key than the log that is gone, and no pin of that one is for it.
	name := origin(m.VaultID) + "/" + ulid.Make().String()
	return g.vault.With(ctx, vault.Ref{Table: vault.Internal, Name: logIdentity}, func(s vault.Secret) error {
		w, err := auditlog.Create(g.cfg.Home.Log(), ed25519.PrivateKey(s.Bytes()), name, all, g.logOptions())
		if err != nil {
			return err
		}
		g.log.w.Store(w)
		return nil
	})
}

// maker reads what the log is made from. The vault is open.
func (g *Gateway) maker(ctx context.Context) (m maker, err error) {
	err = g.vault.With(ctx, vault.Ref{Table: vault.Internal, Name: logMaker}, func(s vault.Secret) error {
		return json.Unmarshal(s.Bytes(), &m)
	})
	if err != nil {
		return maker{}, fmt.Errorf("read what the log is made from: %w", err)
	}
	return m, nil
}

// acceptHead makes the log's present end the vault's lower bound, and the place up to which deeds are known.
func (g *Gateway) acceptHead(ctx context.Context) error {
	h := g.log.head()
	box, err := g.vault.Seal(store.UseAnchor, nil, encode(h.Seq))
	if err != nil {
		return err
	}
	return errors.Join(g.db.ResetAnchor(ctx, h.Seq, h.Hash[:], box), g.db.ResetApplied(ctx, h.Seq))
}
