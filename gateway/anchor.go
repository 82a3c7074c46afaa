package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/store"
	"sallyport/vault"
)

// anchor writes down the log's head in the vault's database: its lower bound, in the clear for the next start and
// sealed for the next unlock. A locked vault keeps the one it has. g.authority is held.
func (g *Gateway) anchor(ctx context.Context) error {
	h := g.log.head()
	if h.Seq == 0 || g.vault.State() != vault.Ready {
		return nil
	}
	box, err := g.vault.Seal(store.UseAnchor, nil, encode(h.Seq))
	if err != nil {
		return err
	}
	return g.db.SetAnchor(ctx, h.Seq, h.Hash[:], box)
}

// bounds compares vault and log both ways, and says what contradicts: the log has seen change counter of the vault, and
// the vault has sealed a head of the log.
func (g *Gateway) bounds(ctx context.Context, counter uint64) (contradiction string, err error) {
	snap := g.vault.Snapshot()
	if have := snap.Counter; counter > have {
		return fmt.Sprintf("the log has seen change %d of the vault, the vault is at %d: it was put back to an older copy", counter, have), nil
	}
	clear, _, box, err := g.db.Anchor(ctx)
	if err != nil || clear == 0 && box == nil {
		return "", err
	}
	var sealed uint64
	plain, err := g.vault.Unseal(store.UseAnchor, nil, box)
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

// anchorNow is anchor for whoever doesn't hold g.authority: a rekey must not meet a box of the key before.
func (g *Gateway) anchorNow(ctx context.Context) error {
	g.authority.Lock()
	defer g.authority.Unlock()
	return g.anchor(ctx)
}

func (g *Gateway) anchorEvery(ctx context.Context, d time.Duration) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			g.complain("anchor", g.anchorNow(ctx))
			g.complain("witness", g.witnessed(ctx))
		}
	}
}
