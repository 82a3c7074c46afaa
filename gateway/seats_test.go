package gateway

import "testing"

// A full door: the greediest process gives its newest connection to one that has fewer, and nobody gives to it.
func TestSeatsAreFair(t *testing.T) {
	const flood, some, fresh = 1, 2, 3
	for _, c := range []struct {
		open  []int // by process
		comes int
		want  int // which connection is displaced
	}{
		{[]int{flood, some, flood, flood}, fresh, 3},
		{[]int{flood, some, flood, flood}, some, 3},
		{[]int{flood, some, flood, some, flood}, some, -1}, // a third would make them equal
		{[]int{flood, some, flood, flood}, flood, -1},
		{[]int{flood, some}, fresh, -1},
		{nil, fresh, -1},
	} {
		p := &seats{}
		for _, pid := range c.open {
			p.open = append(p.open, &seat{pid: pid})
		}
		if got := p.greedy(c.comes); got != c.want {
			t.Errorf("%v, process %d comes: %d is displaced, want %d", c.open, c.comes, got, c.want)
		}
	}
}
