package gateway

import (
	"slices"
	"sync"
	"time"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// opApprovalTable shows all that waits for the operator.
func (g *Gateway) opApprovalTable(r opRequest) (any, error) {
	return api.Table{Cards: g.cards.list(), More: g.cards.more(), Unproved: g.unproved.alarm(boot())}, nil
}

// opApprovalMute refuses what a session asks from now on. It needs no proof: it only takes away.
func (g *Gateway) opApprovalMute(r opRequest) (any, error) { return g.mute(r, true) }

// opApprovalUnmute lets a session ask again.
func (g *Gateway) opApprovalUnmute(r opRequest) (any, error) { return g.mute(r, false) }

func (g *Gateway) mute(r opRequest, on bool) (any, error) {
	var a api.MuteArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	c, known := g.cards.mute(a.Key, on)
	if !known {
		return nil, api.Fail("not_found", "no session of this key asks for anything; see `sp approvals`")
	}
	if g.cards.muteTold(c.Key, false) {
		return c, nil // it was so, and is recorded
	}
	ev := event.Event(event.ApprovalsMuted{Key: c.Key, Chain: c.Text, Waiting: c.Waiting, Operator: r.who, Peer: r.peer()})
	if !on {
		ev = event.ApprovalsUnmuted{Key: c.Key, Chain: c.Text, Refused: c.Refused, Operator: r.who}
	}
	if g.log.w.Load() == nil {
		return c, nil
	}
	if err := g.log.note(r.ctx, "", ev); err != nil {
		g.complain("record mute", err)
		return nil, api.Fail("not_recorded", "")
	}
	g.cards.muteTold(c.Key, true)
	return c, nil
}

// allowance bounds what is written down for whoever proves nothing. Losing authority is always allowed, and recorded once;
// evidence can be asked for again and again, and takes the space that is kept for losses.
type allowance struct {
	mu sync.Mutex
	at []time.Duration // on the boot clock, of the last minute
}

// evidenceMinute is how often in a minute.
const evidenceMinute = 20

// take tells whether r may have evidence recorded now.
func (a *allowance) take(r opRequest, at time.Duration) bool {
	if r.who != unprovedWho {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = slices.DeleteFunc(a.at, func(t time.Duration) bool { return at-t >= time.Minute })
	if len(a.at) >= evidenceMinute {
		return false
	}
	a.at = append(a.at, at)
	return true
}

// unprovedWho is who asks without a proof, as the log names them.
const unprovedWho = "unproved"

// unproved counts the verbs that took something away without a proof. Anybody of this user may do that; many of them in a
// minute are worth the operator's look.
type unproved struct {
	mu sync.Mutex
	at []time.Duration // on the boot clock, the latest unprovedKept
}

const unprovedKept = 1000

func (u *unproved) note(at time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.at = append(u.at, at)
	if n := len(u.at); n > unprovedKept {
		u.at = u.at[n-unprovedKept:]
	}
}

// alarm is how many there were in the last minute, 0 below api.UnprovedAlarm.
func (u *unproved) alarm(at time.Duration) (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, t := range u.at {
		if at-t < time.Minute {
			n++
		}
	}
	if n < api.UnprovedAlarm {
		return 0
	}
	return n
}

// takesAway: the verbs without proof that end something.
func takesAway(path string) bool {
	switch path {
	case api.PathApprovalDeny, api.PathApprovalMute, api.PathSittingClose, api.PathRunRevoke, api.PathRunContain, api.PathEpochRevoke,
		api.PathGrantRevoke, api.PathActionCancel, api.PathLock, api.PathStop:
		return true
	}
	return false
}
