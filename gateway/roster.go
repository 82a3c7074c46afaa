package gateway

import (
	"cmp"
	"os"
	"slices"
	"syscall"

	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// Which processes belong to a run? Its client, its epochs' processes, and all that were seen below one of those. What
// leaves the tree (its parent ends, and init adopts it) stays on the roster by its key, which no other process ever gets.
// The tree is looked at once a second: what is started and leaves it within a second is not known.

// rosterLimit is how many processes below a run's own are remembered.
const rosterLimit = 512

// roster is what is known of a run's processes. It is guarded by run.mu.
type roster struct {
	chief      *peer.Process // the client while it lives; nil after that, and in a run of an earlier start whose client is gone
	below      map[string]member
	over       bool // there were more than rosterLimit
	silence    silence
	orphaned   []reparented // launchers that went while the client lived
	refused    refused
	recorded   bool       // its revocation is
	revocation uint64     // the record of its run_revoked, if this start made it
	proved     api.Denial // the containment's, once it is recorded
	earlier    bool       // the run was opened before this gateway started: what had left its client's tree is not known
}

// member is one process that was seen below one of the run's.
type member struct {
	key    string
	pid    int
	start  uint64 // as peer.Entry
	parent int    // when it was first seen
}

// relative is a member with its place in the run.
type relative struct {
	member
	role     string // client, shim, server, descendant
	epoch    string
	launched string // its command at first contact
	exists   string // why it exists
}

// Roles of a run's processes.
const (
	roleClient     = "client"
	roleShim       = "shim"
	roleServer     = "server"
	roleDescendant = "descendant"
)

// pids are the numbers below which the run's processes are looked for, as a roll that was called just now means them: one
// whose process has ended since, noticed or not, may have been another's by then. r.mu must be held.
func (r *run) pids(roll peer.Roll) []int {
	var out []int
	if r.roster.chief != nil && !over(r.roster.chief) {
		out = append(out, r.owner.facts.PID)
	}
	for _, e := range r.epochs {
		if e.state != authz.EpochEnded && !over(e.proc) {
			out = append(out, e.facts.PID)
		}
	}
	for _, m := range r.roster.below {
		if roll[m.pid].Start == m.start {
			out = append(out, m.pid)
		}
	}
	return out
}

// over asks the kernel whether a process has ended; no signal is sent.
func over(p *peer.Process) bool { return isGone(p.Signal(syscall.Signal(0))) }

// enrol brings the roster to what a roll shows. Keys are asked for outside of the run's lock.
func (r *run) enrol(roll peer.Roll) {
	r.mu.Lock()
	for key, m := range r.roster.below {
		if e, ok := roll[m.pid]; !ok || e.Start != m.start || e.Ended() {
			delete(r.roster.below, key)
		}
	}
	roots := r.pids(roll)
	known := make(map[int]bool, len(roots))
	for _, pid := range roots {
		known[pid] = true
	}
	r.mu.Unlock()

	var fresh []member
	for _, pid := range roll.Below(roots...) {
		if known[pid] || pid == os.Getpid() {
			continue
		}
		if key, err := roll.KeyOf(pid); err == nil {
			fresh = append(fresh, member{key: key, pid: pid, start: roll[pid].Start, parent: roll[pid].PPID})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range fresh {
		if len(r.roster.below) >= rosterLimit {
			r.roster.over = true
			return
		}
		if r.roster.below == nil {
			r.roster.below = map[string]member{}
		}
		r.roster.below[m.key] = m
	}
}

// relatives lists the run's processes that were alive when last looked at: the client first, then its shims, then the
// others by number.
func (r *run) relatives() []relative {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	var out []relative
	add := func(x relative) {
		if !seen[x.key] {
			seen[x.key] = true
			out = append(out, x)
		}
	}
	if r.roster.chief != nil {
		add(relative{member: member{key: r.owner.key, pid: r.owner.facts.PID}, role: roleClient, launched: command(r.owner.facts),
			exists: "it is the client that this run is of"})
	}
	for _, e := range r.epochs {
		if e.state != authz.EpochEnded {
			x := relative{member: member{key: e.proc.Key(), pid: e.facts.PID}, role: roleShim, epoch: e.id, launched: command(e.facts),
				exists: "it speaks to the gateway for the run"}
			if e.inst != nil {
				x.role, x.exists = roleServer, "it is the supervised server "+e.inst.server.label
			}
			add(x)
		}
	}
	others := make([]relative, 0, len(r.roster.below))
	for _, m := range r.roster.below {
		others = append(others, relative{member: m, role: roleDescendant, exists: "it was started below a process of the run"})
	}
	slices.SortFunc(others, func(a, b relative) int { return cmp.Compare(a.pid, b.pid) })
	for _, x := range others {
		add(x)
	}
	return out
}
