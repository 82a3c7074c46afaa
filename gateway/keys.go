package gateway

import (
	"context"

	"sallyport/gateway/store"
	"sallyport/vault"
)

// A caller's idempotency keys belong to its run. Memory has them; after a restart they are taken from the rows of the
// run's actions, when it first gives a key.

// recallKeys takes the keys of a run that was there before this start into memory, once. A client that was heard while the
// vault was still locked has a run of its own since, which inherits them.
func (g *Gateway) recallKeys(ctx context.Context, r *run) error {
	r.mu.Lock()
	runs := r.recall
	r.mu.Unlock()
	if len(runs) == 0 || g.vault.State() != vault.Ready {
		return nil
	}
	var rows []store.Action
	for _, id := range runs {
		of, err := g.db.Actions(ctx, id, keysLimit)
		if err != nil {
			return err
		}
		rows = append(rows, of...)
	}
	keys := map[string]keyUse{}
	for _, row := range rows { // of each run the newest first
		if len(row.Sealed) == 0 {
			continue
		}
		row.Result = nil // only the key is wanted
		k, err := g.openKept(row)
		if err != nil {
			return err
		}
		if _, newer := keys[k.Key]; k.Key != "" && !newer && len(k.Digest) == 32 {
			keys[k.Key] = keyUse{[32]byte(k.Digest), row.ID}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, use := range keys {
		if _, used := r.keys[key]; !used {
			r.keys[key] = use
		}
	}
	r.recall = nil
	return nil
}

// freeKey lets a key be used again whose action the operator has said did not happen, or may be sent again.
func (g *Gateway) freeKey(run, action string) {
	r := g.book.byID(run)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, use := range r.keys {
		if use.action == action {
			delete(r.keys, key)
		}
	}
}
