package peer

// Roll is every process that we see, by its number, at about one moment.
type Roll map[int]Entry

// Entry is what a roll says of one process. A number and a start together name
// one process until the machine stops.
type Entry struct {
	PPID  int
	State byte   // as ps(1) prints it first: R, S, D, T, t, Z, …
	Start uint64 // clock ticks after boot
}

// Ended: only its parent's knowledge of it is left.
func (e Entry) Ended() bool { return e.State == 'Z' || e.State == 'X' }

// Stopped by a signal or by a tracer: it does nothing until it is let go on.
func (e Entry) Stopped() bool { return e.State == 'T' || e.State == 't' }

// Blocked in the kernel, where only the kernel can wake it: mostly in I/O.
func (e Entry) Blocked() bool { return e.State == 'D' }

// Below are the numbers of all processes below any of roots, roots left out,
// parents before their children. A process whose parent ended is below whoever
// adopted it. A number that came round while the roll was called joins nobody: a
// parent is no younger than its child, an adopter neither.
func (r Roll) Below(roots ...int) []int {
	kids := make(map[int][]int)
	for pid, e := range r {
		if !e.Ended() {
			kids[e.PPID] = append(kids[e.PPID], pid)
		}
	}
	seen := make(map[int]bool)
	for _, pid := range roots {
		seen[pid] = true
	}
	var out []int
	for todo := roots; len(todo) > 0; todo = todo[1:] {
		for _, pid := range kids[todo[0]] {
			if !seen[pid] && r[pid].Start >= r[todo[0]].Start {
				seen[pid] = true
				out, todo = append(out, pid), append(todo[:len(todo):len(todo)], pid)
			}
		}
	}
	return out
}

// Condition is how a process that was told to end stands.
type Condition struct {
	State    byte  // of its first thread, as in Entry
	Blocked  bool  // a thread waits in the kernel, where only the kernel can wake it
	Children []int // living
	Keeps    bool  // it ignores or handles SIGTERM: its end is its own decision
}
