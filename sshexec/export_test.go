package sshexec

import "bytes"

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

// Updates reads a push's list under git rules.
func Updates(rules []string, b []byte) (head []byte, refused bool, err error) {
	var r Rules
	if err := r.addGit(RuleSpec{AllowGit: []string{"x"}, GitRules: rules}); err != nil {
		return nil, false, err
	}
	head, rule, err := r.updates(bytes.NewReader(b))
	return head, rule != nil, err
}
