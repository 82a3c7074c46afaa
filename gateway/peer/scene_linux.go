package peer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	descriptorsMax = 1024   // described of one process
	linksMax       = 20_000 // looked at to find the other ends
)

// scene is what several snapshots need of the machine around them: it is looked
// at once for all.
type scene struct {
	ends    map[string][]holder // by pipe:[N] and socket:[N]
	sockets map[string]socket   // by socket:[N], of the processes looked at
	nets    []int               // a process in each network that has a socket of theirs
	agents  []string            // where their environment says that an agent listens
	walk    scratch
}

// holder has a descriptor on something.
type holder struct {
	End
	reads, writes bool
}

// descriptors lists what a process has open, and notes what must be looked for.
func (sc *scene) descriptors(h handle) ([]Descriptor, error) {
	pid := h.pid
	out := []Descriptor{}
	n := 0
	err := sc.walk.each(pid, func(dir int, name string, fd int, target []byte) bool {
		if n++; n > descriptorsMax {
			return false
		}
		var st unix.Stat_t
		if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return true
		}
		d := Descriptor{FD: fd, Mode: mode(st.Mode), Target: string(target)}
		d.Class = classOf(d.Target)
		switch d.Class {
		case ClassPipe:
			sc.want(d.Target)
		case ClassSocket:
			if sc.sockets == nil {
				sc.sockets = make(map[string]socket)
			}
			if _, ok := sc.sockets[d.Target]; !ok {
				sc.sockets[d.Target] = h.socket(fd)
				sc.nets = append(sc.nets, pid)
			}
		}
		out = append(out, d)
		return true
	})
	slices.SortFunc(out, func(a, b Descriptor) int { return a.FD - b.FD })
	if err == nil && n > descriptorsMax {
		err = fmt.Errorf("more than %d", descriptorsMax)
	}
	return out, err
}

func (sc *scene) want(target string) {
	if sc.ends == nil {
		sc.ends = make(map[string][]holder)
	}
	if _, ok := sc.ends[target]; !ok {
		sc.ends[target] = nil
	}
}

// wants says whether any of the descriptors has another end to look for.
func (sc *scene) wants(ds []Descriptor) bool {
	return slices.ContainsFunc(ds, func(d Descriptor) bool { return d.Class == ClassPipe || d.Class == ClassSocket })
}

// look finds sockets and the holders of the other ends. It says what it could
// not see.
func (sc *scene) look() (unseen []string) {
	if len(sc.sockets) > 0 {
		unseen = sc.name()
	}
	if len(sc.ends) == 0 {
		return unseen
	}
	all, err := processes()
	if err != nil {
		return append(unseen, err.Error())
	}
	links, hidden := 0, 0
	for _, pid := range all {
		err := sc.walk.each(pid, func(dir int, name string, fd int, target []byte) bool {
			if links++; links > linksMax {
				return false
			}
			if _, ok := sc.ends[string(target)]; !ok {
				return true
			}
			var st unix.Stat_t
			if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				return true
			}
			h := holder{End{PID: pid, FD: fd}, st.Mode&0o400 != 0, st.Mode&0o200 != 0}
			if s, err := readStat(pid); err == nil {
				h.Comm = s.comm
			}
			sc.ends[string(target)] = append(sc.ends[string(target)], h)
			return true
		})
		if err != nil && err != unix.ENOENT && err != unix.ESRCH {
			hidden++
		}
		if links > linksMax {
			return append(unseen, fmt.Sprintf("peers: more than %d descriptors on this machine", linksMax))
		}
	}
	if hidden > 0 {
		unseen = append(unseen, fmt.Sprintf("peers: descriptors of %d processes can't be read", hidden))
	}
	return unseen
}

// scratch is what one walk over descriptors needs, reused from process to process.
type scratch struct {
	entries [16 << 10]byte
	target  [maxLinkBytes]byte
	names   []string
}

// each calls f with each descriptor of a process until it says no. target is
// valid during the call.
func (sc *scratch) each(pid int, f func(dir int, name string, fd int, target []byte) bool) error {
	dir, err := unix.Open(procPath(pid, "fd"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	for {
		n, err := unix.Getdents(dir, sc.entries[:])
		if err != nil || n <= 0 {
			return err
		}
		_, _, sc.names = unix.ParseDirent(sc.entries[:n], -1, sc.names[:0])
		for _, name := range sc.names {
			fd, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			m, err := unix.Readlinkat(dir, name, sc.target[:])
			if err == nil && !f(dir, name, fd, sc.target[:m]) {
				return nil
			}
		}
	}
}

// mode is how a descriptor was opened: the link's own permissions say so.
func mode(m uint32) string {
	s := ""
	if m&0o400 != 0 {
		s += "r"
	}
	if m&0o200 != 0 {
		s += "w"
	}
	return s
}

// classOf is the class by the kernel's name; sockets are told apart later.
func classOf(target string) string {
	switch {
	case strings.HasPrefix(target, "pipe:["):
		return ClassPipe
	case strings.HasPrefix(target, "socket:["):
		return ClassSocket
	case strings.HasPrefix(target, "/dev/pts/"), strings.HasPrefix(target, "/dev/tty"), target == "/dev/console":
		return ClassTerminal
	case strings.HasPrefix(target, "/dev/") && !strings.HasPrefix(target, "/dev/shm/"):
		return ClassDevice
	case strings.HasPrefix(target, "/"):
		if keyFile(target) {
			return ClassKeyFile
		}
		return ClassFile
	}
	return ClassKernel
}
