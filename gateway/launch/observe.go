package launch

import (
	"fmt"
	"slices"
	"strings"

	"sallyport/gateway/peer"
)

// Observe says what p runs now. From a launcher (a shell with -c, npx, …) it goes down to the only child, which is the one
// that acts. peer.ErrGone and peer.ErrReplaced if p does not stay the instance that was pinned.
func (m *Measurer) Observe(p *peer.Process) (Record, error) { return m.observed(p, workers) }

// ObserveAlone is Observe for p itself, whatever it has started.
func (m *Measurer) ObserveAlone(p *peer.Process) (Record, error) {
	return m.observed(p, func(p *peer.Process) ([]*peer.Process, error) { return []*peer.Process{p}, nil })
}

// Acting is the process that Observe finds below p, and the one that started it, which may be p; nil if p itself acts. The
// caller closes both, but for p.
func Acting(p *peer.Process) (worker, above *peer.Process, err error) {
	chain, err := workers(p)
	if n := len(chain); err == nil && n > 1 {
		worker, above = chain[n-1], chain[n-2]
	}
	for _, q := range chain[1:] {
		if q != worker && q != above {
			q.Close()
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("find who acts: %w", err)
	}
	return worker, above, nil
}

func (m *Measurer) observed(p *peer.Process, down func(*peer.Process) ([]*peer.Process, error)) (Record, error) {
	r, err := m.observe(p, down)
	if err != nil {
		return Record{}, fmt.Errorf("observe process: %w", err)
	}
	return r, nil
}

func (m *Measurer) observe(p *peer.Process, down func(*peer.Process) ([]*peer.Process, error)) (Record, error) {
	chain, err := down(p)
	defer func() {
		for _, q := range chain[1:] {
			q.Close()
		}
	}()
	if err != nil {
		return Record{}, err
	}
	at := chain[len(chain)-1]
	r, err := m.running(at)
	if err != nil {
		return Record{}, err
	}
	above, err := m.above(p)
	if err != nil {
		return Record{}, err
	}
	for _, q := range chain[:len(chain)-1] {
		a, _ := m.launcher(q)
		above = append(above, a...)
	}
	for i := range above {
		above[i].Path = relative(r.WorkingDirectory, above[i].Path)
	}
	r.Launchers = append(above, r.Launchers...)
	// What was read of them is theirs only if all of them still are what they were.
	for _, q := range chain {
		if err := q.Same(); err != nil {
			return Record{}, err
		}
	}
	return r, nil
}

// workers goes from a launcher down to the one that acts: p first. Where a
// launcher has no child yet, or several, the way ends at it. The caller closes
// all but p.
func workers(p *peer.Process) ([]*peer.Process, error) {
	chain := []*peer.Process{p}
	for len(chain) < stepsMax {
		at := chain[len(chain)-1]
		c, foreign, err := commandOf(at)
		if err != nil {
			return chain, err
		}
		if foreign || !c.launches() {
			return chain, nil
		}
		children, err := at.Children()
		if err != nil {
			return chain, err
		}
		if len(children) != 1 {
			for _, q := range children {
				q.Close()
			}
			return chain, nil
		}
		chain = append(chain, children[0])
	}
	return chain, nil
}

// commandOf is the command line of a living process. foreign: its paths mean
// other files than ours.
func commandOf(p *peer.Process) (c *command, foreign bool, err error) {
	f := p.Facts()
	at, err := p.Place()
	if err != nil {
		return nil, false, err
	}
	c = &command{dir: at.Dir, env: at.Env, argv: f.Args, exe: strings.TrimSuffix(f.Exe, " (deleted)"), runs: true}
	if len(c.argv) == 0 {
		c.argv = []string{c.exe}
	}
	foreign = at.Foreign || f.Identity == peer.Contained
	if foreign {
		return c, true, nil
	}
	// The name it was called by tells more than the file: a virtual environment's
	// python is a link.
	if named, err := c.find(c.argv[0]); err == nil && real(named) == c.exe {
		c.exe = named
	}
	return c, false, nil
}

// launches says whether a program starts another one that acts.
func (c *command) launches() bool {
	probe := *c
	next := probe.program()
	return next != nil || probe.deferred || len(probe.launchers) > 0
}

// running is the record of one process.
func (m *Measurer) running(p *peer.Process) (Record, error) {
	f := p.Facts()
	c, foreign, err := commandOf(p)
	if err != nil {
		return Record{}, err
	}
	r := Record{LaunchCommand: slices.Clone(f.Args), ProcessID: f.PID}
	r.Code.Exe, r.Code.ExeDigest = c.exe, f.ExeDigest
	if foreign {
		r.Code.ExeDigest = f.ExeDigest
		r.WorkingDirectory, r.Environment = c.dir, m.environment(c.env)
		r.Launchers = []Artifact{}
		r.Unpinned = []string{"it runs in other namespaces: its paths mean other files"}
		r.marks = &marks{measurer: m}
		return r, nil
	}
	if err := c.follow(); err != nil {
		c.unpinned(err.Error())
	}
	m.fill(&r, c)
	return r, nil
}

// above are the launchers between p and the nearest ancestor that is none,
// outermost first.
func (m *Measurer) above(p *peer.Process) ([]Artifact, error) {
	up, err := p.Ancestors()
	defer func() {
		for _, q := range up {
			q.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	out := []Artifact{}
	for _, q := range up {
		a, is := m.launcher(q)
		if !is {
			break
		}
		out = append(a, out...)
	}
	return out, nil
}

// launcher is a launcher's executable and its script, if it has one. A process
// that may not be looked at is none.
func (m *Measurer) launcher(p *peer.Process) (out []Artifact, is bool) {
	c, foreign, err := commandOf(p)
	if err != nil || foreign || !c.launches() {
		return nil, false
	}
	exe := c.exe
	out = []Artifact{{exe, p.Facts().ExeDigest}}
	c.program()
	for _, script := range append(c.launchers, c.entry) {
		if script == "" || script == exe {
			continue
		}
		if d, _, err := m.digests.digest(script, budget()); err == nil {
			out = append(out, Artifact{script, d})
		}
	}
	return out, true
}
