package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/store"
	"sallyport/vault"
)

// opRestore puts a backup in the place of the vault. The file is received whole and its header opened before anything
// ends for it; the vault that is there wants a proof of its own.
func (g *Gateway) opRestore(r opRequest) (any, error) {
	var a api.RestoreArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	job := restoring{operator: r.who}
	var err error
	if job.proof, err = slotKey(r.proof); err != nil {
		return nil, err
	}
	defer job.proof.Wipe()
	job.key = job.proof
	if len(r.keys) > 0 {
		if job.key, err = slotKey(&r.keys[0]); err != nil {
			return nil, err
		}
		defer job.key.Wipe()
	}
	if err := g.mayRestore(r.ctx, job.proof); err != nil {
		return nil, err
	}
	if job.file, err = g.receive(r, a.FileLength, a.FileDigest); err != nil {
		return nil, err
	}
	defer job.file.Close()
	var out api.Restored
	err = g.proof.Guard(r.ctx, func() (err error) {
		out, err = g.restore(context.WithoutCancel(r.ctx), job)
		return restoreFault(wrongIs(err))
	})
	return out, err
}

// restoring is one restore's input.
type restoring struct {
	file     *spooled
	proof    vault.Key // opens the vault that is there, if one is
	key      vault.Key // opens the backup
	operator string
	newLog   bool // there is no log of this vault
}

// mayRestore asks for the proof before a file is taken from anybody: without a vault there is none to ask for.
func (g *Gateway) mayRestore(ctx context.Context, proof vault.Key) error {
	if g.vault.State() == vault.Absent {
		return nil
	}
	if g.log.w.Load() == nil {
		e := api.Fail("vault_quarantined", g.log.gone)
		e.Retry = "put the log back, or release the vault without it, before anything is restored over it"
		return e
	}
	return g.proof.Guard(ctx, func() error { return wrongIs(g.vault.Check(ctx, proof)) })
}

// restore locks the vault that is there, puts the backup in its place and opens that. Nothing has happened after an
// error that comes before the lock; after one from the swap the vault that was there is there, locked.
func (g *Gateway) restore(ctx context.Context, job restoring) (api.Restored, error) {
	id, err := g.vault.CheckBackup(ctx, job.file, job.key)
	if err == nil {
		err = job.file.rewind()
	}
	if err != nil {
		return api.Restored{}, err
	}
	g.door.Lock()
	defer g.door.Unlock()
	if g.vault.State() == vault.Ready {
		if err := g.lockNow(ctx, word{operator: job.operator}, "restore"); err != nil {
			return api.Restored{}, fmt.Errorf("lock before restoring: %w", err)
		}
	}
	var left []auditlog.Record
	absent := g.vault.State() == vault.Absent
	if absent && g.hasLogOf(id) {
		if left, err = g.openLog(); err != nil {
			return api.Restored{}, err
		}
	}
	job.newLog = g.log.w.Load() == nil
	m, err := g.swapIn(ctx, job)
	if err != nil {
		if absent {
			err = errors.Join(err, g.log.close()) // a vault that is absent has no log
		}
		return api.Restored{}, err
	}
	out := api.Restored{VaultID: m.VaultID, Generation: m.Generation, NewLog: job.newLog}
	if !job.newLog {
		if err := g.reconcile(ctx, left); err != nil {
			return out, err
		}
		if absent {
			if err := g.toldStart(ctx, left); err != nil {
				return out, err
			}
		}
	}
	out.Passed, err = g.openRestored(ctx, job)
	return out, err
}

// swapIn replaces the database. What is recorded of it holds ids and numbers alone: it is told even if nobody unlocks.
func (g *Gateway) swapIn(ctx context.Context, job restoring) (vault.Moved, error) {
	g.authority.Lock()
	defer g.authority.Unlock()
	o := vault.RestoreOptions{Limit: maxBackup, Proof: job.proof, Floor: g.seenCounter}
	return g.vault.Restore(ctx, job.file, job.key, o, func(m vault.Moved) ([]byte, error) {
		b, err := g.batch(true, []event.Event{event.VaultRestored{VaultID: m.VaultID, Generation: m.Generation, Counter: m.Counter,
			Length: job.file.length, Digest: job.file.digest(), Operator: job.operator, NewLog: job.newLog}})
		return b.Bytes(), err
	})
}

// seenCounter is the highest of the vault's changes that the log knows of: the restored vault must be newer than that,
// or the log would find it put back.
func (g *Gateway) seenCounter(unseal func(use string, ad, box []byte) ([]byte, error)) (seen uint64, err error) {
	w := g.log.w.Load()
	if w == nil {
		return 0, nil
	}
	for r, err := range w.Own(0) {
		if err != nil {
			return 0, err
		}
		if len(r.Own) == 0 {
			continue
		}
		var o own
		if b, err := unseal(useOwn, nil, r.Own); err == nil && json.Unmarshal(b, &o) == nil {
			seen = max(seen, o.Counter)
		}
	}
	return seen, nil
}

// hasLogOf tells whether the folder holds a log of this vault: one that was put back beside the backup.
func (g *Gateway) hasLogOf(vaultID string) bool {
	b, err := os.ReadFile(filepath.Join(g.cfg.Home.Log(), "audit.pub"))
	if err != nil {
		return false
	}
	pub, err := auditlog.ParsePub(b)
	return err == nil && (pub.Origin == origin(vaultID) || strings.HasPrefix(pub.Origin, origin(vaultID)+"/"))
}

// openRestored opens the vault, whose log and rows say the same again. It returns how many records of the log were passed
// over.
func (g *Gateway) openRestored(ctx context.Context, job restoring) (passed int, err error) {
	if g.vault.State() == vault.Quarantined {
		return 0, api.Fail("vault_quarantined", "the backup is in place, but "+g.vault.Reason())
	}
	o := opening{done: func() event.Event { return event.VaultUnlocked{Operator: job.operator} }, restored: true}
	if job.newLog {
		o.accept = func() error { return errors.Join(g.newLog(ctx), g.acceptHead(ctx)) }
	}
	err = g.openVault(ctx, job.key, &o)
	return o.passed, err
}

// restoreFault names what a backup is refused for.
func restoreFault(err error) error {
	switch {
	case errors.Is(err, vault.ErrWrongKey):
		return err
	case errors.Is(err, vault.ErrOther):
		return api.Fail("invalid_request", "this is a backup of another vault; another vault needs another SALLYPORT_HOME")
	case errors.Is(err, store.ErrNewer):
		return api.Fail("invalid_request", "a newer version of the program wrote this backup; nothing was stored")
	case errors.Is(err, vault.ErrInvalid):
		return api.Fail("invalid_request", "this is no whole backup of a vault; nothing was stored")
	}
	return err
}
