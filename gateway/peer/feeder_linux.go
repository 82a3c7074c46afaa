package peer

import (
	"errors"
	"os"
	"strings"
)

var errUnclear = errors.New("whose input it is isn't clear")

// Feeder finds who writes into our own standard input, by the rule that gives a run its owner: whoever holds the other end,
// and from a launcher on to the other end of its input. gone is closed when that process has ended, whoever else holds a
// copy of its end by then; it is nil where nothing can be said: a terminal, a file, a FIFO, a foreign or hidden process,
// one that has ended already, or two that could be it. The caller calls release, after which gone is never closed.
//
// It reads no program, so it costs a few reads below /proc.
func Feeder() (gone <-chan struct{}, release func()) {
	h, err := feeder()
	if err != nil {
		return nil, func() {}
	}
	p := &Process{handle: h, gone: make(chan struct{})}
	return p.Gone(), func() { p.Close() }
}

func feeder() (handle, error) {
	self, err := openHandle(os.Getpid())
	if err != nil {
		return handle{}, err
	}
	defer self.f.Close()
	at := self
	for range launchersMax {
		next, err := self.feederOf(at)
		if at != self {
			at.f.Close()
		}
		if err != nil {
			return handle{}, err
		}
		at = next
		if at.pid == self.pid { // a loop of descriptors
			break
		}
		if !at.launches() {
			if at.exited() { // before we looked: the client, or one that merely made the socket pair for somebody
				break
			}
			return at, nil
		}
	}
	if at != self {
		at.f.Close()
	}
	return handle{}, errUnclear
}

// feederOf opens the process at the other end of at's stdin, which must have been there before us.
func (h handle) feederOf(at handle) (handle, error) {
	link, err := procLink(at.pid, "fd/0")
	if err != nil {
		return handle{}, err
	}
	if strings.HasPrefix(link, "pipe:[") {
		return at.pipeFeeder(link)
	}
	if !strings.HasPrefix(link, "socket:[") {
		return handle{}, errUnclear
	}
	q, late, err := at.socketMaker()
	if err != nil || !late {
		return q, err
	}
	// An old kernel gave a number. A process that began after us isn't the one that made our input.
	ours, err1 := h.stat()
	theirs, err2 := q.stat()
	if err1 != nil || err2 != nil || theirs.start > ours.start {
		q.f.Close()
		return handle{}, errUnclear
	}
	return q, nil
}

// pipeFeeder opens the one ancestor that can write into link and is no launcher; where there is none, the nearest launcher
// that can.
func (h handle) pipeFeeder(link string) (handle, error) {
	var clients, launchers []handle
	err := h.climb(func(q handle) (bool, error) {
		if !writes(q.pid, link) {
			return false, nil
		}
		d, err := q.duplicate()
		switch {
		case err != nil:
		case q.launches():
			launchers = append(launchers, d)
		default:
			clients = append(clients, d)
		}
		return false, err
	})
	found := append(clients, launchers...)
	if err != nil || len(clients) > 1 || len(found) == 0 {
		closeHandles(found)
		return handle{}, errors.Join(errUnclear, err)
	}
	closeHandles(found[1:])
	return found[0], nil
}

// launches says whether the process merely starts another for somebody.
func (h handle) launches() bool {
	exe, err := procLink(h.pid, "exe")
	return err == nil && launches(exe, commandLine(h.pid))
}
