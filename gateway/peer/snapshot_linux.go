package peer

import (
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Snapshot looks at p without touching it. ErrGone if it has ended, a zombie
// too. For several processes Snapshots looks around only once.
func (p *Process) Snapshot() (Snapshot, error) {
	all, errs := Snapshots([]*Process{p})
	return all[0], errs[0]
}

// Snapshots looks at several processes at one time. Both results have an entry
// for each process.
func Snapshots(ps []*Process) ([]Snapshot, []error) {
	all, errs := make([]Snapshot, len(ps)), make([]error, len(ps))
	var sc scene
	for i, p := range ps {
		all[i], errs[i] = p.portrait(&sc)
	}
	unseen := sc.look()
	for i, p := range ps {
		if p.handle.exited() {
			errs[i] = ErrGone
		}
		if errs[i] != nil {
			all[i], errs[i] = Snapshot{}, fmt.Errorf("take snapshot: %w", errs[i])
			continue
		}
		if sc.wants(all[i].Descriptors) {
			all[i].Gaps = append(all[i].Gaps, unseen...)
		}
		sc.fill(&all[i])
	}
	return all, errs
}

// portrait is all of a snapshot but the peers of its descriptors.
func (p *Process) portrait(sc *scene) (s Snapshot, err error) {
	s.At = time.Now().Round(0)
	if s.Process, err = p.handle.kin(); err != nil {
		return s, err
	}
	pid := p.handle.pid
	st, err := readStatus(pid)
	if err != nil {
		return s, err
	}
	s.UID, s.User = st.uid, strconv.FormatUint(uint64(st.uid), 10)
	if u, err := user.LookupId(s.User); err == nil {
		s.User = u.Username
	}
	gap := func(what string, err error) {
		if err != nil {
			s.Gaps = append(s.Gaps, what+": "+errno(err).Error())
		}
	}
	s.Exe, err = procLink(pid, "exe")
	gap("executable", err)
	pl, err := p.place()
	gap("folder and environment", err)
	s.Directory = pl.Dir
	for _, v := range pl.Env {
		name, value, _ := strings.Cut(v, "=")
		s.Variables = append(s.Variables, strings.Clone(name))
		if name == "SSH_AUTH_SOCK" {
			sc.agents = append(sc.agents, strings.Clone(value))
		}
	}
	slices.Sort(s.Variables)
	s.Descriptors, err = sc.descriptors(p.handle)
	gap("descriptors", err)
	s.Children, err = kinOf(p.handle.children())
	gap("children", err)
	s.Group, err = kinOf(p.handle.group())
	gap("process group", err)
	return s, nil
}

// kinOf describes processes; those that end meanwhile are left out, zombies not.
func kinOf(pids []int, err error) ([]Kin, error) {
	out := []Kin{}
	for _, pid := range pids {
		h, e := openHandle(pid)
		if e != nil {
			continue
		}
		if k, e := h.kin(); e == nil {
			out = append(out, k)
		}
		h.f.Close()
	}
	return out, err
}

func (h handle) kin() (Kin, error) {
	st, err := readStat(h.pid)
	if err != nil {
		return Kin{}, err
	}
	us, err := readStatus(h.pid)
	if err != nil {
		return Kin{}, err
	}
	k := Kin{PID: h.pid, PPID: st.ppid, PGID: st.pgid, SID: st.sid, Stat: st.letters(h.pid, us.locked), Comm: st.comm, Command: commandLine(h.pid)}
	if k.Start, err = startTime(st.start); err != nil {
		return Kin{}, err
	}
	k.ETime = elapsed(time.Since(k.Start))
	if k.Key, _, err = h.key(); err != nil {
		return Kin{}, err
	}
	// All of it is one process's: its number was not given away meanwhile.
	if again, err := readStat(h.pid); err != nil || again.start != st.start {
		return Kin{}, ErrGone
	}
	return k, nil
}

// letters is the STAT column of ps(1).
func (st stat) letters(pid int, locked bool) string {
	s := string(st.state)
	switch {
	case st.nice < 0:
		s += "<"
	case st.nice > 0:
		s += "N"
	}
	if locked {
		s += "L"
	}
	if st.sid == pid {
		s += "s"
	}
	if st.threads > 1 {
		s += "l"
	}
	if st.foreground == st.pgid {
		s += "+"
	}
	return s
}

// elapsed is the ELAPSED column of ps(1).
func elapsed(d time.Duration) string {
	n := max(0, int64(d/time.Second))
	days, h, m, s := n/86400, n/3600%24, n/60%60, n%60
	switch {
	case days > 0:
		return fmt.Sprintf("%02d-%02d:%02d:%02d", days, h, m, s)
	case h > 0:
		return fmt.Sprintf("%02d:%02d:%02d", h, m, s)
	}
	return fmt.Sprintf("%02d:%02d", m, s)
}
