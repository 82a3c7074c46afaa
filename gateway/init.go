package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/home"
	"sallyport/vault"
)

// initialize makes vault and log: keys in memory, then audit.pub, signer and first segment, then the vault's first
// transaction with the log's identity in it. Killed anywhere before that, there is no vault, and the next init replaces the log.
func (g *Gateway) initialize(ctx context.Context, passphrase []byte) (api.Created, error) {
	g.door.Lock()
	defer g.door.Unlock()
	if g.vault.State() != vault.Absent {
		e := api.Fail("exists", "there is a vault already")
		e.Retry = "open it with `sp unlock`; another vault needs another SALLYPORT_HOME"
		return api.Created{}, e
	}
	key := vault.Passphrase(passphrase)
	defer key.Wipe()
	draft, err := g.vault.Prepare(key, vault.CreateOptions{WorkFactor: g.cfg.WorkFactor})
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
	recipients := []string{recipient, draft.RecoveryRecipient}
	w, err := auditlog.Create(g.cfg.Home.Log(), id, origin(draft.VaultID), recipients, g.logOptions())
	if err != nil {
		return api.Created{}, err
	}
	g.log.w.Store(w)
	evs := []event.Event{
		event.GatewayStarted{Version: g.cfg.Version, ProcessID: os.Getpid(), AbsentCalls: int(g.log.absent.Load())},
		event.VaultCreated{VaultID: draft.VaultID},
	}
	b, err := g.batch(true, evs) // ids and numbers alone: clear
	if err == nil {
		err = draft.Commit(ctx, map[string][]byte{logIdentity: id, logMaker: encode(maker{draft.VaultID, recipient})}, b.Bytes())
	}
	if err != nil {
		return api.Created{}, errors.Join(fmt.Errorf("create vault: %w", err), g.log.close())
	}
	g.authority.Lock()
	defer g.authority.Unlock()
	if err := g.tell(ctx, b, evs); err != nil {
		return api.Created{}, err
	}
	if err := errors.Join(g.follow(ctx), g.anchor(ctx)); err != nil {
		return api.Created{}, err
	}
	path, pub, fingerprint, err := readPub(g.cfg.Home)
	if err != nil {
		return api.Created{}, err
	}
	g.attended()
	g.open.Store(true)
	return api.Created{VaultID: draft.VaultID, RecoveryIdentity: draft.RecoveryIdentity, ReaderIdentity: reader,
		AuditPub: path, AuditKey: string(pub), Fingerprint: fingerprint}, nil
}

// Names among the vault's internal secrets.
const (
	logIdentity = "log identity" // the log's identity key
	logMaker    = "log maker"    // what a new log of the same identity is made from
)

// maker is what a log is made from besides its identity.
type maker struct {
	VaultID string `json:"vaultId"`
	Reader  string `json:"reader"` // age recipient
}

// origin names the log of a vault.
func origin(vaultID string) string { return home.Product + "/" + vaultID }
