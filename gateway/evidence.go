package gateway

import (
	"sallyport/auditlog/event"
	"sallyport/gateway/peer"
)

// evidence is a process as the log keeps it where it is first told: which code it ran by the digest of the running image,
// how sure that is, by which words it was started and where it stood. Everything but its words comes from the kernel.
func evidence(f peer.Facts) event.Peer {
	p := recorded(f)
	p.Command, p.Parent, p.Group, p.Session, p.Weak = command(f), f.PPID, f.PGID, f.SID, f.Weak
	return p
}

// evidenceOf tells the launchers between a client and what acts for it: one that rewrites itself is part of the picture.
func evidenceOf(ps []*peer.Process) []event.Peer {
	var out []event.Peer
	for _, p := range ps {
		out = append(out, evidence(p.Facts()))
	}
	return out
}
