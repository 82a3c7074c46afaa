package first

import "syscall"

// begun is what init did: it is handed over by Begun.
var begun struct {
	session Session
	rest    []byte // read, and not answered
	ended   bool   // and nothing follows
}

// patience is how long the first line is waited for, in milliseconds. A host that says it later is served by main, as is
// what it says next: by then all else is ready.
const patience = 20

// atOnce is how much is read at a time, and about how much in all, in bytes.
const atOnce = 64 << 10

// Begin serves `sp mcp`, and no other command. Package before calls it.
func Begin() {
	if alone() {
		begun.rest, begun.ended = begun.session.begin(0, 1)
	}
}

// alone says whether the program was started with "mcp" as its one argument. os.Args isn't there yet.
func alone() bool {
	fd, err := syscall.Open("/proc/self/cmdline", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	var b [4096]byte
	n, err := syscall.Read(fd, b[:])
	if err != nil || n < 0 {
		return false
	}
	return string(b[after(b[:n], 0):n]) == "mcp\x00"
}

// begin answers what can be read at once, and returns what it read and did not answer, and whether it read the end: a
// terminal says that once. A line whose answer can't be written is not answered.
func (s *Session) begin(in, out int) (rest []byte, ended bool) {
	wait := patience
	b := make([]byte, atOnce) // main's reader takes as much: of a packet, what isn't taken is lost
	for len(rest) < atOnce && ready(in, wait) {
		n, err := syscall.Read(in, b)
		if err != nil || n <= 0 {
			return rest, err == nil // main reads the same error
		}
		for rest = append(rest, b[:n]...); ; {
			end := after(rest, '\n')
			if end == 0 {
				break
			}
			then := *s
			id, result, ok := then.Answer(rest[:end])
			if !ok || id != nil && !write(out, line(id, result)) {
				return rest, false
			}
			*s, rest = then, rest[end:]
		}
		wait = 0
	}
	return rest, false
}

// after is the place behind the first c in b; 0 where there is none.
func after(b []byte, c byte) int {
	for i := range b {
		if b[i] == c {
			return i + 1
		}
	}
	return 0
}

func line(id, result []byte) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(b, `,"result":`...)
	b = append(b, result...)
	return append(b, '}', '\n')
}

// ready waits for something to read.
func ready(fd, milliseconds int) bool {
	var set syscall.FdSet
	set.Bits[0] = 1 << fd
	limit := syscall.NsecToTimeval(int64(milliseconds) * 1e6)
	n, err := syscall.Select(fd+1, &set, nil, nil, &limit)
	return err == nil && n == 1
}

// write writes all of b. The first bytes of an answer may be out when it fails: so are they when main fails to write.
func write(fd int, b []byte) bool {
	for len(b) > 0 {
		n, err := syscall.Write(fd, b)
		switch {
		case err == nil:
			b = b[n:]
		case err == syscall.EAGAIN: // somebody's non-blocking stream: wait as a blocking one does
			var set syscall.FdSet
			set.Bits[0] = 1 << fd
			if _, err := syscall.Select(fd+1, nil, &set, nil, nil); err != nil && err != syscall.EINTR {
				return false
			}
		case err != syscall.EINTR:
			return false
		}
	}
	return true
}

// Begun returns what was said before main, what of the standard input was read and is unanswered, and whether that was its end.
func Begun() (said Session, rest []byte, ended bool) { return begun.session, begun.rest, begun.ended }
