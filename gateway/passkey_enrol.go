package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"sync"
	"time"

	"sallyport/gateway/api"
	"sallyport/gateway/proof"
)

// An enrolment is begun by a proof, and made on the console's page by whoever has its ticket: the page can be opened
// once, so that a person whose link was used by somebody else sees it.

const (
	enrolmentLife  = 10 * time.Minute
	enrolmentLimit = 4 // under way at once
)

// enrolment is one under way.
type enrolment struct {
	name, by string
	ends     time.Duration   // CLOCK_BOOTTIME
	ceremony *proof.Ceremony // nil until its page was opened
}

// enrolments are kept by their ticket's hash. mu is a leaf.
type enrolments struct {
	mu  sync.Mutex
	all map[[32]byte]*enrolment
}

// begin returns a new ticket.
func (e *enrolments) begin(x *enrolment) (string, bool) {
	var b [32]byte
	rand.Read(b[:])
	ticket := base64.RawURLEncoding.EncodeToString(b[:])
	e.mu.Lock()
	defer e.mu.Unlock()
	for k, old := range e.all {
		if boot() > old.ends {
			delete(e.all, k)
		}
	}
	if len(e.all) >= enrolmentLimit {
		return "", false
	}
	if e.all == nil {
		e.all = map[[32]byte]*enrolment{}
	}
	e.all[sha256.Sum256([]byte(ticket))] = x
	return ticket, true
}

// waits tells whether there is such a ticket.
func (e *enrolments) waits(ticket string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.all[sha256.Sum256([]byte(ticket))]
	return x != nil && boot() <= x.ends
}

// open gives a ticket's enrolment to begin a ceremony for, once.
func (e *enrolments) open(ticket string, begin func(*enrolment) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.all[sha256.Sum256([]byte(ticket))]
	switch {
	case x == nil || boot() > x.ends:
		return ticketOver()
	case x.ceremony != nil:
		return api.Fail("not_found", "this link was opened before; if that was not you, begin again with `sp passkey add`, and look at who has your terminal")
	}
	return begin(x)
}

// finish takes an opened enrolment away; nil: there is none.
func (e *enrolments) finish(ticket string) *enrolment {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := sha256.Sum256([]byte(ticket))
	x := e.all[k]
	if x == nil || boot() > x.ends || x.ceremony == nil {
		return nil
	}
	delete(e.all, k)
	return x
}

// end forgets them all.
func (e *enrolments) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.all)
}

func ticketOver() *api.Error {
	return api.Fail("not_found", "this link is over: it works once, for ten minutes; begin again with `sp passkey add`")
}

// opPasskeyAdd begins an enrolment; its route has checked the proof.
func (g *Gateway) opPasskeyAdd(r opRequest) (any, error) {
	var a api.PasskeyArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	kept, err := g.keptPasskeys()
	if err != nil {
		return nil, err
	}
	for n := 1; a.Name == ""; n++ {
		if name := fmt.Sprintf("passkey-%d", n); newPasskeyName(kept, name) == nil || n > passkeysLimit {
			a.Name = name
		}
	}
	if err := newPasskeyName(kept, a.Name); err != nil {
		return nil, err
	}
	if g.consoleOrigin() == "" {
		return nil, api.Fail("invalid_request", "a passkey is made on the console's page, and this gateway has no console: start it with `spd serve --console on`")
	}
	ticket, ok := g.signing.enrolments.begin(&enrolment{name: a.Name, by: r.who, ends: boot() + enrolmentLife})
	if !ok {
		return nil, api.Fail("rate_limited", "too many passkeys are being added already")
	}
	return api.Enrolment{Name: a.Name, URL: g.consoleOrigin() + "/passkey#" + ticket, Ticket: ticket, ExpiresAt: now().Wall.Add(enrolmentLife)}, nil
}

func newPasskeyName(kept passkeys, name string) error {
	if err := checkPasskeyName(name); err != nil {
		return err
	}
	switch {
	case slices.ContainsFunc(kept.Keys, func(k proof.Passkey) bool { return k.Name == name }):
		return api.Fail("exists", "there is a passkey of this name already")
	case len(kept.Keys) >= passkeysLimit:
		return api.Fail("invalid_request", "there are 16 passkeys already; remove one with `sp passkey rm`")
	}
	return nil
}

// opPasskeyOpen is the page's first step. The ticket proves it.
func (g *Gateway) opPasskeyOpen(r opRequest) (any, error) {
	var a api.TicketArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	if !g.signing.enrolments.waits(a.Ticket) {
		return nil, ticketOver() // before anything is locked or stored for whoever guesses
	}
	kept, err := g.userHandle(r)
	if err != nil {
		return nil, err
	}
	party, ok := g.party(kept)
	if !ok {
		return nil, ticketOver()
	}
	var out api.Creation
	err = g.signing.enrolments.open(a.Ticket, func(x *enrolment) error {
		options, c, err := party.Begin(x.name, kept.Keys)
		if err == nil {
			x.ceremony, out = c, api.Creation{Name: x.name, Options: options}
		}
		return err
	})
	return out, err
}

// userHandle returns what is kept, with the handle that every passkey of this vault has.
func (g *Gateway) userHandle(r opRequest) (passkeys, error) {
	g.authority.Lock()
	defer g.authority.Unlock()
	kept, err := g.keptPasskeys()
	if err != nil || len(kept.User) > 0 {
		return kept, err
	}
	kept.User = handle()
	return kept, g.keepPasskeys(r.ctx, kept)
}

// opPasskeyEnrol is the page's second step: what the authenticator made becomes a passkey.
func (g *Gateway) opPasskeyEnrol(r opRequest) (any, error) {
	var a api.EnrolArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	if err := g.ready(); err != nil {
		return nil, err
	}
	x := g.signing.enrolments.finish(a.Ticket)
	if x == nil {
		return nil, ticketOver()
	}
	k, err := x.ceremony.Finish(a.Registration)
	if err != nil {
		return nil, err
	}
	k.ID, k.Name, k.AddedAt, k.AddedBy = newID("pk_"), x.name, now().Wall.UTC(), x.by
	g.authority.Lock()
	defer g.authority.Unlock()
	snap, err := g.contents()
	if err != nil {
		return nil, err
	}
	kept, err := readPasskeys(snap)
	if err != nil {
		return nil, err
	}
	if !kept.stand(x.by) {
		return nil, api.Fail("operator_refused", "the passkey that this one was begun by has been removed")
	}
	if err := newPasskeyName(kept, k.Name); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(kept.Keys, func(o proof.Passkey) bool { return slices.Equal(o.CredentialID, k.CredentialID) }) {
		return nil, api.Fail("exists", "this passkey is enrolled already")
	}
	if len(kept.Keys) == 0 {
		kept.Told = snap.Generation
	}
	kept.Keys = append(kept.Keys, k)
	if err := g.keepPasskeys(r.ctx, kept, added(k)); err != nil {
		return nil, err
	}
	return shownPasskey(k), nil
}
