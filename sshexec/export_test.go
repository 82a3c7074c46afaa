package sshexec

// Leases counts the places taken on all connections of p.
func Leases(p *Pool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, links := range p.links {
		for _, l := range links {
			n += l.use.leases
		}
	}
	return n
}
