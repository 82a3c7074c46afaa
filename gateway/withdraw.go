package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/store"
	"sallyport/httpexec"
	"sallyport/sshexec"
	"sallyport/vault"
)

// A grant is for the credential and the hosts that stood when it was given. Whoever changes one of them takes back first
// what was given for it as it was: in memory before the vault changes, so nothing is allowed by it in between, and told
// to the log in the transaction of the change.

// alteration is one change of the vault's credentials and hosts. g.alter makes it.
type alteration struct {
	credentials []string      // whose grants, cards and connections end
	grace       time.Duration // how long calls under way by them may go on
	reason      string        // why those end, for the log: a word
	evs         []event.Event // what it is, for the log
	write       func(ctx context.Context, also []byte) error
}

// names tells whether an alteration is about a credential.
func (a *alteration) names(credential string) bool { return slices.Contains(a.credentials, credential) }

// loss is what one run lost by an alteration.
type loss struct {
	run    *run
	grants []*grant
}

// rotationGrace is how long calls that left with the old value may go on after a rotation. Nothing is taken from what
// they may do, so they get longer than after a revocation.
const rotationGrace = time.Second

// alter makes the change that draw makes of the vault as it stands, and returns what ended by it: once it has returned,
// no call by the old version is under way, and no connection that the old one opened is left.
func (g *Gateway) alter(ctx context.Context, draw func(*vault.Snapshot) (alteration, error)) (api.Ended, error) {
	ctx = context.WithoutCancel(ctx)
	a, lost, err := g.altered(ctx, draw)
	if err != nil && len(lost) == 0 {
		return api.Ended{}, err
	}
	out := api.Ended{Grants: []string{}, Left: []api.Action{}}
	var left []string
	for _, l := range lost {
		for _, x := range l.grants {
			out.Grants = append(out.Grants, x.ID)
		}
		left = append(left, g.stopWithin(l.run, a.grace, func(c *call) bool { return slices.Contains(l.grants, c.grant) })...)
	}
	g.dropPools(a.names)
	slices.Sort(out.Grants)
	out.Left = g.departed(left)
	return out, err
}

// altered is alter's part under g.authority: memory first, then vault and log.
func (g *Gateway) altered(ctx context.Context, draw func(*vault.Snapshot) (alteration, error)) (alteration, []loss, error) {
	g.authority.Lock()
	defer g.authority.Unlock()
	snap, err := g.contents()
	if err != nil {
		return alteration{}, nil, err
	}
	a, err := draw(snap)
	if err != nil {
		return a, nil, err
	}
	lost := g.takeBack(a.names)
	revoked := revokedBy(lost, a.reason)
	if err := g.changeVault(ctx, slices.Concat(revoked, a.evs), a.write); err != nil {
		if len(lost) > 0 { // memory has lost them already, whatever became of the change
			err = errors.Join(err, g.lose(ctx, revoked, lostRows(lost)))
		}
		return a, lost, err
	}
	g.targetsAdded()
	now := g.vault.Snapshot()
	g.cards.expire(func(c *card) bool { return now == nil || !c.plan.current(now) }, a.reason)
	if len(lost) > 0 {
		g.complain("end grants", g.change(ctx, true, nil, lostRows(lost)))
	}
	return a, lost, nil
}

// takeBack ends in memory every grant that names one of the credentials.
func (g *Gateway) takeBack(names func(string) bool) []loss {
	var out []loss
	for _, r := range g.book.all() {
		r.mu.Lock()
		var gone []*grant
		r.grants = slices.DeleteFunc(r.grants, func(x *grant) bool {
			if !slices.ContainsFunc(x.Credentials, names) {
				return false
			}
			x.State = authz.GrantVoid
			gone = append(gone, x)
			return true
		})
		if len(gone) > 0 {
			out = append(out, loss{r, gone})
			if len(r.grants) == 0 {
				r.step(authz.Lock) // without a live grant the run is no longer active
			}
		}
		r.mu.Unlock()
	}
	return out
}

func revokedBy(lost []loss, reason string) []event.Event {
	var evs []event.Event
	for _, l := range lost {
		for _, x := range l.grants {
			evs = append(evs, event.GrantRevoked{Grant: x.ID, Run: l.run.id, Epoch: x.Epoch, Reason: reason})
		}
	}
	return evs
}

func lostRows(lost []loss) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		for _, l := range lost {
			if err := setRun(l.run, l.grants)(tx); err != nil {
				return err
			}
		}
		return nil
	}
}

// dropPools closes the connections that were opened with the credentials, and those of the hosts that log in with them.
func (g *Gateway) dropPools(names func(string) bool) {
	g.http.Drop(func(k httpexec.PoolKey) bool { return names(k.Credential) })
	t := g.targets()
	if t == nil {
		return // locked meanwhile, which drops all
	}
	g.ssh.Drop(func(k sshexec.PoolKey) bool {
		h, ok := t.hosts[k.Target]
		if !ok {
			return k.Run != enrolling // a host that is gone
		}
		w, _, why := t.wayTo(k.Target, h, nil)
		return why != "" || slices.ContainsFunc(w.logins, func(l login) bool { return names(l.secret.Name) })
	})
}

// grantsNaming lists the live grants that a change of the credentials would end.
func (g *Gateway) grantsNaming(names func(string) bool) []string {
	out := []string{}
	for _, r := range g.book.all() {
		r.mu.Lock()
		for _, x := range r.grants {
			if slices.ContainsFunc(x.Credentials, names) {
				out = append(out, x.ID)
			}
		}
		r.mu.Unlock()
	}
	slices.Sort(out)
	return out
}
