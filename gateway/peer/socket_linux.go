package peer

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	netFileMax = 4 << 20 // bytes read of a list of sockets
	peersMax   = 64      // ends named of one descriptor
)

// socket is what the kernel says of one socket.
type socket struct {
	class, local, remote, state string
	peer                        string // socket:[N] of a local socket's other end
}

// socket asks a copy of the process's socket for its addresses; the zero value if
// it is a local one, or where Yama forbids the copy. The kernel's tables, the
// other way, cost milliseconds each on a machine with much memory.
func (h handle) socket(fd int) (s socket) {
	var c int
	if h.do(func(pidfd int) (err error) { c, err = unix.PidfdGetfd(pidfd, fd, 0); return err }) != nil {
		return s
	}
	defer unix.Close(c)
	domain, err := unix.GetsockoptInt(c, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_INET && domain != unix.AF_INET6 {
		return s
	}
	protocol, err := unix.GetsockoptInt(c, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	switch {
	case err != nil:
		return s
	case protocol == unix.IPPROTO_TCP:
		s.class = ClassTCP
		if info, err := unix.GetsockoptTCPInfo(c, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil && int(info.State) < len(tcpStates) {
			s.state = tcpStates[info.State]
		}
	case protocol == unix.IPPROTO_UDP:
		s.class = ClassUDP
	default:
		s.class = ClassSocket
	}
	if a, err := unix.Getsockname(c); err == nil {
		s.local = addrPort(a)
	}
	if a, err := unix.Getpeername(c); err == nil {
		s.remote = addrPort(a)
	}
	return s
}

func addrPort(a unix.Sockaddr) string {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return address(a.Addr[:], a.Port)
	case *unix.SockaddrInet6:
		return address(a.Addr[:], a.Port)
	}
	return ""
}

// address is "" for one that is all zero.
func address(b []byte, port int) string {
	a, ok := netip.AddrFromSlice(b)
	if !ok || a.IsUnspecified() && port == 0 {
		return ""
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(port)).String()
}

// name finds out what the sockets are. It says what it could not see.
func (sc *scene) name() (unseen []string) {
	diag, err := openDiag()
	if err != nil {
		unseen = append(unseen, "local sockets: "+errno(err).Error())
	} else {
		defer unix.Close(diag.fd)
		for target, known := range sc.sockets {
			if known.class != "" {
				continue
			}
			s, peer, err := diag.local(target)
			if err != nil {
				continue // none of our network, or not local
			}
			if peer != 0 {
				s.peer = "socket:[" + strconv.FormatUint(uint64(peer), 10) + "]"
				sc.want(s.peer)
				if other, _, err := diag.local(s.peer); err == nil {
					s.remote = other.local
				}
			}
			sc.sockets[target] = s
		}
	}
	seen := make(map[uint64]bool)
	for _, pid := range sc.nets {
		var st unix.Stat_t
		if unix.Stat(procPath(pid, "ns/net"), &st) != nil || seen[st.Ino] || !sc.nameless() {
			continue
		}
		seen[st.Ino] = true
		for _, f := range []string{"tcp", "tcp6", "udp", "udp6"} {
			if !sc.nameless() {
				break
			}
			if b, err := procFileUpTo(pid, "net/"+f, netFileMax); err == nil {
				sc.internet(string(b), strings.TrimSuffix(f, "6"))
			}
		}
		if b, err := procFileUpTo(pid, "net/unix", netFileMax); err == nil && sc.nameless() {
			sc.paths(string(b))
		}
	}
	return unseen
}

func (sc *scene) nameless() bool {
	for _, s := range sc.sockets {
		if s.class == "" {
			return true
		}
	}
	return false
}

// tcpStates are those of net/tcp_states.h.
var tcpStates = []string{"", "established", "syn-sent", "syn-recv", "fin-wait-1", "fin-wait-2", "time-wait", "close", "close-wait", "last-ack", "listen", "closing"}

// internet reads /proc/PID/net/tcp and its like (proc(5)).
func (sc *scene) internet(table, class string) {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 10 {
			continue
		}
		target := "socket:[" + f[9] + "]"
		if s, ok := sc.sockets[target]; !ok || s.class != "" {
			continue
		}
		s := socket{class: class, local: endpoint(f[1]), remote: endpoint(f[2])}
		if n, err := strconv.ParseUint(f[3], 16, 8); err == nil && class == ClassTCP && int(n) < len(tcpStates) {
			s.state = tcpStates[n]
		}
		sc.sockets[target] = s
	}
}

// endpoint reads ADDRESS:PORT in hexadecimal, the address in words of the
// machine's byte order; "" for one that is all zero, or malformed.
func endpoint(s string) string {
	words, port, _ := strings.Cut(s, ":")
	p, err := strconv.ParseUint(port, 16, 16)
	if err != nil || len(words)%8 != 0 {
		return ""
	}
	var b []byte
	for ; len(words) > 0; words = words[8:] {
		w, err := strconv.ParseUint(words[:8], 16, 32)
		if err != nil {
			return ""
		}
		b = binary.NativeEndian.AppendUint32(b, uint32(w))
	}
	return address(b, int(p))
}

// paths reads /proc/PID/net/unix: addresses, and no peers.
func (sc *scene) paths(table string) {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 7 {
			continue
		}
		target := "socket:[" + f[6] + "]"
		if s, ok := sc.sockets[target]; ok && s.class == "" {
			sc.sockets[target] = socket{class: ClassLocal, local: strings.Join(f[7:], " ")}
		}
	}
}

// fill adds to a snapshot's descriptors what was found around them.
func (sc *scene) fill(s *Snapshot) {
	for i := range s.Descriptors {
		d := &s.Descriptors[i]
		ends := sc.ends[d.Target]
		if d.Class == ClassSocket {
			k := sc.sockets[d.Target]
			ends = sc.ends[k.peer]
			d.Local, d.Remote, d.State = k.local, k.remote, k.state
			if k.class != "" {
				d.Class = k.class
			}
			if k.class == ClassLocal {
				d.Class = sc.localClass(k, ends)
			}
		}
		for _, h := range ends {
			self := h.PID == s.Process.PID && h.FD == d.FD
			other := h.writes && strings.Contains(d.Mode, "r") || h.reads && strings.Contains(d.Mode, "w")
			if !self && other && len(d.Peers) < peersMax {
				d.Peers = append(d.Peers, h.End)
			}
		}
	}
	s.Gaps = append([]string{}, s.Gaps...)
}

func (sc *scene) localClass(k socket, ends []holder) string {
	var holders []string
	for _, h := range ends {
		holders = append(holders, h.Comm)
	}
	address := k.remote
	if address == "" {
		address = k.local
	}
	return socketClass(address, sc.agents, holders)
}
