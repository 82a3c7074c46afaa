package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/proof"
	"sallyport/vault"
)

// Passkeys are the operator's other proof. They are sealed with the settings; the log has their public keys, so that a
// reviewer checks what they signed without the vault.

// passkeyProof is the kind of a proof by passkey.
const passkeyProof = "passkey"

// passkeysName is the one document they are kept in.
const passkeysName = "passkeys"

// passkeysLimit: a few devices, and some that were forgotten.
const passkeysLimit = 16

// passkeys is that document. Told is the vault's generation in which the log was told of all of them: a backup brings
// back some that the log has seen removed, or that it never saw.
type passkeys struct {
	User []byte          `json:"user"` // their common user handle
	Told uint64          `json:"told"`
	Keys []proof.Passkey `json:"keys"`
}

// stand tells whether the proof that something was begun by still counts: a passkey that was removed meanwhile begins
// nothing. by is as opRequest.who.
func (p passkeys) stand(by string) bool {
	id, ok := strings.CutPrefix(by, passkeyProof+":")
	return !ok || slices.ContainsFunc(p.Keys, func(k proof.Passkey) bool { return k.ID == id })
}

// readPasskeys takes them from a snapshot.
func readPasskeys(snap *vault.Snapshot) (p passkeys, err error) {
	if doc, ok := snap.Setting(passkeysName); ok {
		if err := json.Unmarshal(doc, &p, json.RejectUnknownMembers(true)); err != nil {
			return passkeys{}, fmt.Errorf("read passkeys: %w", err)
		}
	}
	return p, nil
}

// keptPasskeys are those of the open vault.
func (g *Gateway) keptPasskeys() (passkeys, error) {
	snap, err := g.contents()
	if err != nil {
		return passkeys{}, err
	}
	return readPasskeys(snap)
}

// keepPasskeys stores them, with what the log is told of it. g.authority is held.
func (g *Gateway) keepPasskeys(ctx context.Context, p passkeys, evs ...event.Event) error {
	write := func(ctx context.Context, also []byte) error {
		return g.vault.SetSetting(ctx, passkeysName, encode(p), also)
	}
	if len(evs) == 0 {
		return write(context.WithoutCancel(ctx), nil)
	}
	return g.changeVault(ctx, evs, write)
}

// signing is what waits to be signed. What it holds ends with the process.
type signing struct {
	nonces     *proof.Nonces
	enrolments enrolments
}

// consoleOrigin is the one page that passkeys sign on; empty: there is none.
func (g *Gateway) consoleOrigin() string { return strings.TrimSuffix(g.consoleURL(), "/") }

// party is the console that asks for signatures; false while there is none.
func (g *Gateway) party(p passkeys) (proof.Party, bool) {
	return proof.Party{Origin: g.consoleOrigin(), User: p.User}, g.consoleOrigin() != ""
}

// canSign tells whether some passkey could answer for a card now.
func (g *Gateway) canSign() bool {
	p, err := g.keptPasskeys()
	return err == nil && len(p.Keys) > 0 && g.consoleOrigin() != ""
}

// signed is a request's proof by passkey: what was signed, as a reviewer checks it.
type signed struct {
	args      []byte // RFC 8785, with the nonce where there was one
	assertion event.Assertion
}

// proveSigned checks a proof by passkey for one request. The challenge is the request's own; what makes it new is the
// card it answers, or else a nonce of this process in its args, which the handler does not see.
func (g *Gateway) proveSigned(path string, req *opRequest) error {
	challenge, err := api.Challenge(path, req.args)
	if err != nil {
		return api.Fail("invalid_request", "args: no canonical form")
	}
	args := canonicalArgs(req.args)
	rest, nonce, err := cutNonce(args)
	if err != nil {
		return err
	}
	if nonce == "" && path != api.PathApprovalGrant {
		return api.Fail("proof_required", "args.nonce: a passkey signs one request, so it must hold a nonce of "+api.PathProofChallenge)
	}
	g.authority.Lock()
	defer g.authority.Unlock()
	kept, err := g.keptPasskeys()
	if err != nil {
		return err
	}
	party, ok := g.party(kept)
	if !ok {
		return api.Fail("proof_required", "passkeys sign on the console's page, and this gateway has no console")
	}
	s, err := party.Check(kept.Keys, challenge, req.proof.Value)
	if errors.Is(err, proof.ErrCloned) {
		g.complain("record refused passkey", g.log.note(req.ctx, "", event.OperatorRefused{Path: path, Reason: "passkey " + s.By.ID + ": its counter went back", Peer: req.peer()}))
	}
	if err != nil {
		return err
	}
	if nonce != "" && !g.signing.nonces.Take(nonce) {
		return api.Fail("proof_wrong", "this was signed for a request that is over; sign again")
	}
	req.signed = &signed{args, event.Assertion{CredentialID: s.CredentialID, AuthenticatorData: s.AuthenticatorData, ClientDataJSON: s.ClientDataJSON, Signature: s.Signature}}
	// What counts here must count for a reviewer too, who has less to go by.
	if err := req.signed.assertion.Verify(s.By.SPKI, api.RPID, path, args); err != nil {
		return api.Fail("proof_wrong", "the passkey's answer does not hold: "+err.Error())
	}
	for i := range kept.Keys {
		if k := &kept.Keys[i]; k.ID == s.By.ID && k.Counter != s.By.Counter {
			k.Counter = s.By.Counter
			if err := g.keepPasskeys(req.ctx, kept); err != nil {
				return fmt.Errorf("keep the passkey's counter: %w", err)
			}
		}
	}
	req.args, req.who = rest, passkeyProof+":"+s.By.ID
	return nil
}

// kind is the kind of proof that stands behind a request.
func (r opRequest) kind() string {
	if r.signed != nil {
		return passkeyProof
	}
	return r.who
}

// canonicalArgs is their RFC 8785 form, which api.Challenge found there to be.
func canonicalArgs(args []byte) jsontext.Value {
	v := jsontext.Value(bytes.Clone(args))
	if len(v) == 0 {
		v = jsontext.Value("{}")
	}
	v.Canonicalize()
	return v
}

// cutNonce takes the member "nonce" out of args.
func cutNonce(args jsontext.Value) (rest jsontext.Value, nonce string, err error) {
	var all map[string]jsontext.Value
	if fault := decode(args, &all); fault != nil {
		return nil, "", fault
	}
	raw, ok := all["nonce"]
	if !ok {
		return args, "", nil
	}
	if json.Unmarshal(raw, &nonce) != nil || nonce == "" {
		return nil, "", api.Fail("invalid_request", "nonce: a text of "+api.PathProofChallenge)
	}
	delete(all, "nonce")
	return encode(all), nonce, nil
}

// opProofChallenge is what a page needs to have something signed.
func (g *Gateway) opProofChallenge(r opRequest) (any, error) {
	if fault := decode(r.args, &struct{}{}); fault != nil {
		return nil, fault
	}
	kept, err := g.keptPasskeys()
	if err != nil {
		return nil, err
	}
	nonce, life := g.signing.nonces.Draw()
	out := api.Fresh{Nonce: nonce, ExpiresAt: now().Wall.Add(life), RPID: api.RPID, Credentials: []string{}}
	for _, k := range kept.Keys {
		out.Credentials = append(out.Credentials, base64.RawURLEncoding.EncodeToString(k.CredentialID))
	}
	return out, nil
}

func shownPasskey(k proof.Passkey) api.Passkey {
	return api.Passkey{ID: k.ID, Name: k.Name, CredentialID: base64.RawURLEncoding.EncodeToString(k.CredentialID), Algorithm: k.Algorithm,
		Synced: k.Synced, AddedAt: k.AddedAt, AddedBy: k.AddedBy}
}

func (g *Gateway) opPasskeyList(r opRequest) (any, error) {
	if fault := decode(r.args, &struct{}{}); fault != nil {
		return nil, fault
	}
	kept, err := g.keptPasskeys()
	if err != nil {
		return nil, err
	}
	out := []api.Passkey{}
	for _, k := range kept.Keys {
		out = append(out, shownPasskey(k))
	}
	return out, nil
}

// opPasskeyRemove ends a passkey, and the sittings that it opened. What it approved stays.
func (g *Gateway) opPasskeyRemove(r opRequest) (any, error) {
	var a api.IDArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	gone, err := g.dropPasskey(r, a.ID)
	if err != nil {
		return nil, err
	}
	g.endSittings(r.ctx, func(s *sitting) bool { return s.by == passkeyProof+":"+gone.ID }, "passkey_removed")
	return shownPasskey(gone), nil
}

func (g *Gateway) dropPasskey(r opRequest, id string) (proof.Passkey, error) {
	g.authority.Lock()
	defer g.authority.Unlock()
	kept, err := g.keptPasskeys()
	if err != nil {
		return proof.Passkey{}, err
	}
	i := slices.IndexFunc(kept.Keys, func(k proof.Passkey) bool { return k.ID == id })
	if i < 0 {
		return proof.Passkey{}, api.Fail("not_found", "there is no passkey "+escape(id, 64))
	}
	k := kept.Keys[i]
	kept.Keys = slices.Delete(kept.Keys, i, i+1)
	return k, g.keepPasskeys(r.ctx, kept, event.PasskeyRemoved{Passkey: k.ID, CredentialID: k.CredentialID, Operator: r.who})
}

// tellPasskeys tells the log of every passkey that the vault holds, where it may not know of them: a backup came in the
// vault's place, or the log is new. It knows what it knows already. Nothing is open yet, and g.authority is held.
func (g *Gateway) tellPasskeys(ctx context.Context, newLog bool) error {
	snap := g.vault.Snapshot()
	kept, err := readPasskeys(snap)
	if err != nil || len(kept.Keys) == 0 || kept.Told == snap.Generation && !newLog {
		return err
	}
	for _, k := range kept.Keys {
		if err := g.log.note(ctx, "", added(k)); err != nil {
			return err
		}
	}
	kept.Told = snap.Generation
	return g.keepPasskeys(ctx, kept)
}

func added(k proof.Passkey) event.Event {
	return event.PasskeyAdded{Passkey: k.ID, CredentialID: k.CredentialID, SPKI: k.SPKI, RPID: api.RPID, Operator: k.AddedBy}
}

// handle is a new user handle.
func handle() []byte {
	b := make([]byte, 32)
	rand.Read(b)
	return b
}

// checkPasskeyName: what people call a device.
func checkPasskeyName(s string) error {
	if s == "" || len(s) > 64 || !utf8.ValidString(s) || strings.TrimSpace(s) != s || escape(s, 64) != s {
		return api.Fail("invalid_request", "name: 1 to 64 bytes that can be printed, as in laptop or \"blue key\"")
	}
	return nil
}
