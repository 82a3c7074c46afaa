package gateway

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	"sallyport/auditlog"
	"sallyport/gateway/api"
	"sallyport/gateway/home"
	"sallyport/vault"
)

func (g *Gateway) opStatus(r opRequest) (any, error) { return g.status(), nil }

func (g *Gateway) status() api.Status {
	s := api.Status{Vault: g.vault.State().String(), Version: g.cfg.Version, PID: os.Getpid(), Console: g.consoleURL(), Runs: map[string]int{},
		PendingApprovals: len(g.cards.list()), Unresolved: g.acts.open(), Quarantine: g.vault.Reason(), Unproved: g.unproved.alarm(boot())}
	if s.Vault == vault.Ready.String() && !g.open.Load() {
		s.Vault = vault.Locked.String()
	}
	for _, x := range g.book.all() {
		x.mu.Lock()
		s.Runs[x.state.String()]++
		x.mu.Unlock()
	}
	h := g.log.head()
	if h.Seq > 0 {
		s.Audit = api.AuditHead{Records: int64(h.Records), Head: base64.StdEncoding.EncodeToString(h.Hash[:])}
	}
	return s
}

func (g *Gateway) opInit(r opRequest) (any, error) {
	if fault := decode(r.args, &struct{}{}); fault != nil {
		return nil, fault
	}
	if r.proof.Kind != "passphrase" {
		return nil, api.Fail("proof_required", fmt.Sprintf("a new vault needs a passphrase of at least %d characters", minPassphrase))
	}
	if err := fitPassphrase([]byte(r.proof.Value)); err != nil {
		return nil, err
	}
	return g.initialize(r.ctx, []byte(r.proof.Value))
}

// minPassphrase: scrypt at 2^18 makes a guess cost 256 MiB and about a second; below this length that is not enough.
const minPassphrase = 8

func (g *Gateway) opUnlock(r opRequest) (any, error) {
	var key vault.Key
	var err error
	if r.proof.Kind == "keychain" {
		key, err = g.keychainKey(r.ctx)
	} else {
		key, err = slotKey(r.proof)
	}
	if err != nil {
		return nil, err
	}
	defer key.Wipe()
	if err := g.proof.Guard(r.ctx, func() error { return g.unlock(r.ctx, key, r.who) }); err != nil {
		return nil, err
	}
	return g.status(), nil
}

// slotKey is what opens a slot of the vault; nothing else unlocks it.
func slotKey(p *api.Proof) (vault.Key, error) {
	switch p.Kind {
	case "passphrase":
		return vault.Passphrase([]byte(p.Value)), nil
	case "recovery":
		return vault.Recovery(p.Value), nil
	}
	return vault.Key{}, api.Fail("proof_required", "this opens a slot of the vault: give the passphrase, or the recovery identity with --recovery")
}

func (g *Gateway) opRelease(r opRequest) (any, error) {
	var a api.ReleaseArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	key, err := slotKey(r.proof)
	if err != nil {
		return nil, err
	}
	defer key.Wipe()
	err = g.proof.Guard(r.ctx, func() error { return g.release(r.ctx, key, r.who, a.AcceptLogHead) })
	if err != nil {
		return nil, err
	}
	return g.status(), nil
}

func (g *Gateway) opLock(r opRequest) (any, error) {
	if err := g.lock(r.ctx, r.word(), "operator"); err != nil {
		if g.vault.State() == vault.Locked {
			g.complain("lock", err)
			return nil, api.Fail("not_recorded", "locked here, not yet recorded")
		}
		return nil, err
	}
	return g.status(), nil
}

func (g *Gateway) opStop(r opRequest) (any, error) {
	by := r.word()
	g.stopper.Store(&by)
	g.Stop() // Serve lets this answer out before it closes the door
	return struct{}{}, nil
}

// opCheckpoint signs the log's head with its identity, for a place outside this machine, and adds what its witnesses say.
func (g *Gateway) opCheckpoint(r opRequest) (any, error) {
	if err := g.ready(); err != nil {
		return nil, err
	}
	note, err := g.checkpoint(r.ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.ctx, witnessLimit)
	defer cancel()
	note = append(note, g.witnesses.cosign(ctx, g.log.w.Load(), note)...)
	return api.Checkpoint{Note: string(note)}, g.anchorNow(r.ctx)
}

// checkpoint is the log's head, signed by its identity. The vault is open.
func (g *Gateway) checkpoint(ctx context.Context) (note []byte, err error) {
	err = g.vault.With(ctx, vault.Ref{Table: vault.Internal, Name: logIdentity}, func(s vault.Secret) (err error) {
		note, err = g.log.w.Load().Checkpoint(ed25519.PrivateKey(s.Bytes()))
		return err
	})
	return note, err
}

// readPub names the log's public file and its key's fingerprint.
func readPub(h home.Home) (path string, note []byte, fingerprint string, err error) {
	path = filepath.Join(h.Log(), "audit.pub")
	note, err = os.ReadFile(path)
	if err != nil {
		return "", nil, "", err
	}
	fingerprint, err = auditlog.Fingerprint(note)
	return path, note, fingerprint, err
}
