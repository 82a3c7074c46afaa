package sshexec

import (
	"net"
	"slices"
	"strings"
)

// Target is one stored host. Nothing of it comes from an agent.
type Target struct {
	Name         string
	Address      string   // HOST:PORT
	User         string   // the account there
	HostKeys     []string // authorized_keys form "ssh-ed25519 AAAA…"
	AllowNetwork []string // CIDRs of non-public addresses that may be dialled
	Shell        string   // "posix" or "exact"; anything else counts as exact
	Via          *Target  // its jump host; nil: dialled directly
}

// MaxHops bounds a chain of jump hosts, the target included.
const MaxHops = 4

// Check refuses a target that Dial could not use. Every error is a
// *RequestError invalid_request.
func (t Target) Check() error {
	_, err := t.plan()
	return err
}

// dialPlan is a target, read.
type dialPlan struct {
	host, port string
	guard      guard
	pins       pins
}

func (t Target) plan() (dialPlan, error) {
	if t.Name == "" {
		return dialPlan{}, invalid("target: no name")
	}
	if t.User == "" || len(t.User) > 255 || t.User[0] == '-' || strings.ContainsFunc(t.User, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return dialPlan{}, invalid("target: user is no account name")
	}
	if t.Shell != "posix" && t.Shell != "exact" && t.Shell != "" {
		return dialPlan{}, invalid(`target: shell is neither "posix" nor "exact"`)
	}
	d, err := planAddress(t.Address, t.AllowNetwork)
	if err != nil {
		return dialPlan{}, err
	}
	hops := 1
	for v := t.Via; v != nil; v = v.Via {
		if hops++; hops > MaxHops {
			return dialPlan{}, invalid("target: over %d hops", MaxHops)
		}
	}
	d.pins, err = parsePins(t.HostKeys)
	return d, err
}

func planAddress(address string, allow []string) (d dialPlan, err error) {
	if address, err = ParseAddress(address); err != nil {
		return dialPlan{}, err
	}
	if d.host, d.port, err = net.SplitHostPort(address); err != nil {
		return dialPlan{}, invalid("address is not HOST:PORT")
	}
	d.guard, err = newGuard(allow)
	return d, err
}

// same reports whether a connection made for t serves u as well.
func (t Target) same(u Target) bool {
	return t.Address == u.Address && t.User == u.User && sameKeys(t.HostKeys, u.HostKeys) &&
		slices.Equal(t.AllowNetwork, u.AllowNetwork) && (t.Via == nil) == (u.Via == nil) && (t.Via == nil || t.Via.same(*u.Via))
}
