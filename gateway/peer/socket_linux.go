package peer

import (
	"encoding/binary"
	"errors"
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

// name finds out what the sockets are. It says what it could not see.
func (sc *scene) name() (unseen []string) {
	diag, err := openDiag()
	if err != nil {
		unseen = append(unseen, "local sockets: "+errno(err).Error())
	} else {
		defer unix.Close(diag.fd)
		for target := range sc.sockets {
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
	address, port, _ := strings.Cut(s, ":")
	p, err := strconv.ParseUint(port, 16, 16)
	if err != nil || len(address)%8 != 0 {
		return ""
	}
	var b []byte
	for ; len(address) > 0; address = address[8:] {
		w, err := strconv.ParseUint(address[:8], 16, 32)
		if err != nil {
			return ""
		}
		b = binary.NativeEndian.AppendUint32(b, uint32(w))
	}
	a, ok := netip.AddrFromSlice(b)
	if !ok || a.IsUnspecified() && p == 0 {
		return ""
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(p)).String()
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

// diag asks the kernel about local sockets (sock_diag(7)), one at a time.
type diag struct{ fd int }

func openDiag() (diag, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return diag{}, err
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		unix.Close(fd)
		return diag{}, err
	}
	return diag{fd}, nil
}

// Of linux/unix_diag.h.
const (
	showName, showPeer         = 1, 4
	attrName, attrPeer         = 0, 2
	diagHeader, diagBody       = 16, 24 // nlmsghdr; unix_diag_req
	diagMessage                = 16     // unix_diag_msg
	stateEstablished, stListen = 1, 10
)

var errNoSocket = errors.New("no such socket")

// local asks for the local socket that a descriptor's target names.
func (d diag) local(target string) (s socket, peer uint32, err error) {
	ino, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]"), 10, 32)
	if err != nil {
		return s, 0, errNoSocket
	}
	e := binary.NativeEndian
	req := make([]byte, diagHeader+diagBody)
	e.PutUint32(req, uint32(len(req)))
	e.PutUint16(req[4:], unix.SOCK_DIAG_BY_FAMILY)
	e.PutUint16(req[6:], unix.NLM_F_REQUEST)
	req[diagHeader] = unix.AF_UNIX
	e.PutUint32(req[diagHeader+4:], ^uint32(0)) // states
	e.PutUint32(req[diagHeader+8:], uint32(ino))
	e.PutUint32(req[diagHeader+12:], showName|showPeer)
	e.PutUint64(req[diagHeader+16:], ^uint64(0)) // whatever its cookie
	if err := unix.Sendto(d.fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return s, 0, err
	}
	buf := make([]byte, 4096)
	n, _, err := unix.Recvfrom(d.fd, buf, 0)
	if err != nil {
		return s, 0, err
	}
	return parseDiag(buf[:n])
}

// parseDiag reads one answer of the kernel.
func parseDiag(b []byte) (s socket, peer uint32, err error) {
	e := binary.NativeEndian
	if len(b) < diagHeader+diagMessage || e.Uint16(b[4:]) != unix.SOCK_DIAG_BY_FAMILY {
		return s, 0, errNoSocket
	}
	s.class = ClassLocal
	connected := false
	switch b[diagHeader+2] {
	case stListen:
		s.state = "listen"
	case stateEstablished:
		s.state, connected = "connected", true
	}
	named := false
	for b = b[diagHeader+diagMessage:]; len(b) >= 4; {
		n := int(e.Uint16(b))
		if n < 4 || n > len(b) {
			break
		}
		switch value := b[4:n]; e.Uint16(b[2:]) {
		case attrName:
			s.local = strings.TrimRight(string(value), "\x00")
			if abstract, ok := strings.CutPrefix(s.local, "\x00"); ok {
				s.local = "@" + abstract
			}
		case attrPeer:
			if named = len(value) == 4; named {
				peer = e.Uint32(value)
			}
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	if connected && named && peer == 0 {
		s.state = "peer gone"
	}
	return s, peer, nil
}
