package gateway

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sallyport/auditlog/event"
	"sallyport/gateway/peer"
)

// Evidence: what a run's processes look like, before anything is done to them.

// Reasons for a look, as process_observed names them.
const (
	whyClientGone = "client_gone"
	whyContain    = "contain"
	whyAfterTerm  = "after_term"
	whyAfterKill  = "after_kill"
	whyIncident   = "incident"
)

// Bounds of one record. What is over them is counted among its gaps.
const (
	observedMax    = 64 // processes of one look
	descriptorsMax = 256
	kinMax         = 64
	commandMax     = 1024 // bytes
	pathMax        = 512
)

// observed is one process as it was recorded.
type observed struct {
	event.ProcessObserved
	seq uint64 // of its record
	key string // peer.Process.Key: the process is this one, whatever has its number later
}

// observe takes a snapshot of every living process that is known to belong to r, and records each as one
// process_observed. It touches none of them. Processes that end meanwhile are left out. gaps says what of the run could
// not be looked at. why is one of the words above.
//
// A process's Authority is what it can reach by itself, whatever the gateway does: names of its environment, key files,
// ssh-agents, ssh control sockets and credential helpers that it holds open; incident.Rotated is what of that needs rotation.
func (g *Gateway) observe(ctx context.Context, r *run, why string) (out []observed, gaps []string, err error) {
	if roll, err := peer.CallRoll(); err != nil {
		gaps = append(gaps, fmt.Sprintf("what was started within the last second is not known: %v", err))
	} else {
		r.enrol(roll)
	}
	known := r.relatives()
	r.mu.Lock()
	over := r.roster.over
	r.mu.Unlock()
	if over {
		gaps = append(gaps, fmt.Sprintf("the run had more than %d processes: some are not known", rosterLimit))
	}
	ours := make(map[int]bool, len(known))
	for _, x := range known {
		ours[x.pid] = true
	}
	if len(known) > observedMax {
		gaps = append(gaps, fmt.Sprintf("%d more processes of the run were not looked at", len(known)-observedMax))
		known = known[:observedMax]
	}
	var ps []*peer.Process
	var of []relative
	defer func() {
		for _, p := range ps {
			p.Close()
		}
	}()
	for _, x := range known {
		p, err := peer.Find(x.pid)
		switch {
		case err == nil && p.Key() == x.key:
			ps, of = append(ps, p), append(of, x)
		case err == nil:
			p.Close() // it has ended, and another has its number
		default:
			if gone(x.pid) {
				continue
			}
			gaps = append(gaps, fmt.Sprintf("pid %d can't be looked at: %v", x.pid, err))
		}
	}
	snaps, errs := peer.Snapshots(ps)
	var evs []event.Event
	for i, s := range snaps {
		if errs[i] != nil {
			if !gone(of[i].pid) {
				gaps = append(gaps, fmt.Sprintf("pid %d can't be looked at: %v", of[i].pid, errs[i]))
			}
			continue
		}
		ev := portrait(r.id, why, of[i], s, ours)
		out = append(out, observed{ProcessObserved: ev, key: of[i].key})
		evs = append(evs, ev)
	}
	// A commit has bounds of its own, and one record may be large.
	for i := range evs {
		seq, err := g.log.append(ctx, notes(event.Subject(r.id), evs[i:i+1])...)
		if err != nil {
			return out, gaps, fmt.Errorf("record snapshot: %w", err)
		}
		out[i].seq = seq
	}
	return out, gaps, nil
}

// gone tells whether a number has no living process.
func gone(pid int) bool {
	roll, err := peer.CallRoll()
	if err != nil {
		return false
	}
	e, ok := roll[pid]
	return !ok || e.Ended()
}

// portrait is a snapshot as the log keeps it. ours are the numbers of the run's own processes.
func portrait(run, why string, x relative, s peer.Snapshot, ours map[int]bool) event.ProcessObserved {
	k := s.Process
	ev := event.ProcessObserved{
		Run: run, Epoch: x.epoch, Why: why, Role: x.role, Exists: x.exists, Launched: x.launched,
		Process: event.Process{
			At: s.At, ProcessID: k.PID, PPID: k.PPID, PGID: k.PGID, SID: k.SID, Stat: k.Stat, ETime: k.ETime, Started: k.Start,
			User: escape(s.User, 64), Exe: escape(s.Exe, pathMax), Command: words(k), Directory: escape(s.Directory, pathMax),
		},
		Descriptors: []event.Descriptor{}, Children: []event.Kin{}, Group: []event.Kin{}, Authority: leads(s),
	}
	if x.role == roleDescendant && x.parent != 0 {
		ev.Exists = "pid " + strconv.Itoa(x.parent) + " of the run started it"
	}
	for i, d := range s.Descriptors {
		if i == descriptorsMax {
			ev.Gaps = append(ev.Gaps, fmt.Sprintf("%d more descriptors", len(s.Descriptors)-i))
			break
		}
		ev.Descriptors = append(ev.Descriptors, descriptor(d))
	}
	kin := func(all []peer.Kin, what string) []event.Kin {
		out := []event.Kin{}
		for i, k := range all {
			if i == kinMax {
				ev.Gaps = append(ev.Gaps, fmt.Sprintf("%d more %s", len(all)-i, what))
				break
			}
			out = append(out, event.Kin{ProcessID: k.PID, PPID: k.PPID, Stat: k.Stat, Command: words(k), Stranger: !ours[k.PID]})
		}
		return out
	}
	ev.Children = kin(s.Children, "children")
	ev.Group = kin(s.Group, "members of its process group")
	for _, gap := range s.Gaps {
		ev.Gaps = append(ev.Gaps, escape(gap, pathMax))
	}
	return ev
}

// words is what a process shows as its command.
func words(k peer.Kin) string {
	if len(k.Command) == 0 {
		return "[" + escape(k.Comm, 64) + "]"
	}
	return escape(strings.Join(k.Command, " "), commandMax)
}

func descriptor(d peer.Descriptor) event.Descriptor {
	out := event.Descriptor{FD: d.FD, Mode: d.Mode, Class: d.Class, Target: escape(d.Target, pathMax), Local: escape(d.Local, pathMax),
		Remote: escape(d.Remote, pathMax), State: d.State}
	for _, p := range d.Peers[:min(len(d.Peers), kinMax)] {
		out.Peers = append(out.Peers, fmt.Sprintf("pid %d fd %d (%s)", p.PID, p.FD, escape(p.Comm, 64)))
	}
	return out
}

// leads are the ways to act that a snapshot shows. They are leads for people: a name says what something is called, and
// what is absent from them proves nothing.
func leads(s peer.Snapshot) []event.Lead {
	out := []event.Lead{}
	add := func(l event.Lead) {
		if !slices.Contains(out, l) && len(out) < descriptorsMax {
			out = append(out, l)
		}
	}
	for _, name := range s.Variables {
		if name == "SSH_AUTH_SOCK" {
			add(event.Lead{Kind: "ssh_agent", Name: name, Rotate: "the keys in the ssh-agent that SSH_AUTH_SOCK names"})
		} else if holdsSecret(name) {
			name = escape(name, 128)
			add(event.Lead{Kind: "environment", Name: name, Rotate: "what the environment variable " + name + " holds"})
		}
	}
	for _, d := range s.Descriptors {
		where := d.Remote
		if where == "" {
			where = d.Target
		}
		where = escape(where, pathMax)
		switch d.Class {
		case peer.ClassKeyFile:
			where = escape(d.Target, pathMax)
			add(event.Lead{Kind: "key_file", Name: where, Rotate: "the key in " + where})
		case peer.ClassSSHAgent:
			add(event.Lead{Kind: "ssh_agent", Name: where, Rotate: "the keys in the ssh-agent at " + where})
		case peer.ClassSSHControl:
			add(event.Lead{Kind: "ssh_control", Name: where, Rotate: "the key that opened the ssh connection at " + where})
		case peer.ClassHelper:
			add(event.Lead{Kind: "credential_helper", Name: where, Rotate: "what the credential helper at " + where + " hands out"})
		case peer.ClassTCP:
			if d.State == "established" {
				add(event.Lead{Kind: "connection", Name: where})
			}
		}
	}
	return out
}

// holdsSecret tells by its name whether a variable is one that secrets are put into.
func holdsSecret(name string) bool {
	n := strings.ToUpper(name)
	if n == "GOOGLE_APPLICATION_CREDENTIALS" || n == "KUBECONFIG" || n == "AWS_SESSION_TOKEN" {
		return true
	}
	for _, part := range []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "APIKEY", "API_KEY", "ACCESS_KEY",
		"PRIVATE_KEY"} {
		if strings.Contains(n, part) {
			return true
		}
	}
	return strings.HasSuffix(n, "_KEY") || strings.HasSuffix(n, "_PAT") || strings.HasSuffix(n, "_AUTH") || strings.HasSuffix(n, "_PASS")
}
