package main

import "testing"

func TestIdleDue(t *testing.T) {
	const mib = 1 << 20
	var i idle
	for _, c := range []struct {
		what      string
		allocated uint64 // since the start
		want      bool
	}{
		{"at the start", 3 * mib, false},
		{"at work", 20 * mib, false},
		{"still", 40 * mib, false},
		{"at rest", 41 * mib, true},
		{"and on", 42 * mib, false},
		{"for long", 45 * mib, false},
		{"what rest itself takes", 49 * mib, false},
		{"by now worth it", 50 * mib, true},
		{"at work again", 90 * mib, false},
		{"at rest again", 90 * mib, true},
	} {
		if got := i.due(c.allocated); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
