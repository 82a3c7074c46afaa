package gateway

import (
	"context"
	"errors"
	"fmt"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/vault"
)

// opRekey seals everything under a new key. The proof opens one slot; where there are several passphrases, the others
// come along, since nobody can seal to a passphrase without it.
func (g *Gateway) opRekey(r opRequest) (any, error) {
	if err := g.ready(); err != nil {
		return nil, err
	}
	var keys []vault.Key
	defer func() {
		for _, k := range keys {
			k.Wipe()
		}
	}()
	for _, p := range append([]api.Proof{*r.proof}, r.keys...) {
		key, err := slotKey(&p)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	var m vault.Moved
	err := g.proof.Guard(r.ctx, func() (err error) {
		if err = g.allOpen(r, keys); err == nil {
			m, err = g.rekey(context.WithoutCancel(r.ctx), keys, r.who)
		}
		return slotFault(wrongIs(err))
	})
	if err != nil {
		return nil, err
	}
	return api.Rekeyed{Generation: m.Generation, Resealed: m.Resealed, Unreadable: m.Unreadable}, nil
}

// allOpen looks at the keys before anything ends for them.
func (g *Gateway) allOpen(r opRequest, keys []vault.Key) error {
	given, want := 0, 0
	for _, p := range append([]api.Proof{*r.proof}, r.keys...) {
		if p.Kind == "passphrase" {
			given++
		}
	}
	for _, s := range g.vault.Slots() {
		if s.Kind == vault.PassphraseSlot {
			want++
		}
	}
	if given != want {
		e := api.Fail("proof_required", fmt.Sprintf("%d passphrases open this vault, and each is needed to seal it anew; %d came", want, given))
		e.Retry = "give the others too, or remove their slots first: `sp vault slots`"
		return e
	}
	for _, k := range keys {
		if err := g.vault.Check(r.ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// rekey closes the gate as a lock does, so that nothing sealed before is written after: every grant ends. Then the vault
// is open again under its new key. If that fails the vault is locked: what was lost in memory is recorded so.
func (g *Gateway) rekey(ctx context.Context, keys []vault.Key, operator string) (m vault.Moved, err error) {
	g.door.Lock()
	defer g.door.Unlock()
	if err := g.ready(); err != nil {
		return m, err
	}
	moved, err := g.shutGate(ctx, "vault_locked")
	g.authority.Lock()
	defer g.authority.Unlock()
	if err == nil {
		err = g.db.Change(ctx, g.endAll("vault_rekeyed", moved))
	}
	if err == nil {
		m, err = g.reseal(ctx, keys, operator)
	}
	if err != nil {
		return m, errors.Join(err, g.closeVault(ctx, word{operator: "rekey"}, "rekey", moved))
	}
	g.complain("anchor", g.anchor(ctx))
	g.attended()
	g.open.Store(true)
	return m, nil
}

// reseal makes the new database, with the event in it, and tells the log. g.authority is held.
func (g *Gateway) reseal(ctx context.Context, keys []vault.Key, operator string) (m vault.Moved, err error) {
	snap := g.vault.Snapshot()
	if snap == nil {
		return m, vault.ErrLocked
	}
	evs := []event.Event{event.VaultRekeyed{Generation: snap.Generation + 1, Counter: snap.Counter + 1, Operator: operator}}
	err = g.changeVault(ctx, evs, func(ctx context.Context, also []byte) error {
		m, err = g.vault.Rekey(ctx, keys, vault.CreateOptions{WorkFactor: g.cfg.WorkFactor}, also)
		return err
	})
	return m, err
}
