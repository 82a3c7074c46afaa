package peer

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

const environMax = 4 << 20 // bytes of an environment that we read

// Place says where p stands now, and with which environment it was started, as
// the process shows it: it may have written over both. ErrGone if it has ended.
func (p *Process) Place() (Place, error) {
	pl, err := p.place()
	if p.handle.exited() {
		err = ErrGone
	}
	if err != nil {
		return Place{}, fmt.Errorf("look where process stands: %w", err)
	}
	return pl, nil
}

func (p *Process) place() (pl Place, err error) {
	pid := p.handle.pid
	if pl.Dir, err = procLink(pid, "cwd"); err != nil {
		return Place{}, err
	}
	pl.Dir = strings.TrimSuffix(pl.Dir, " (deleted)")
	b, err := procFileUpTo(pid, "environ", environMax)
	if err != nil {
		return Place{}, err
	}
	for v := range strings.SplitSeq(strings.TrimRight(string(b), "\x00"), "\x00") {
		if strings.Contains(v, "=") {
			pl.Env = append(pl.Env, v)
		}
	}
	clear(b)
	pl.Foreign = foreign(pid)
	return pl, nil
}

// foreign says whether paths mean other files to the process than to us; true if
// that can't be told.
func foreign(pid int) bool {
	same, err := sameNamespace(pid, "mnt")
	if err != nil || !same {
		return true
	}
	var theirs, ours unix.Stat_t
	if unix.Stat(procPath(pid, "root"), &theirs) != nil || unix.Stat("/", &ours) != nil {
		return true
	}
	return theirs.Dev != ours.Dev || theirs.Ino != ours.Ino
}
