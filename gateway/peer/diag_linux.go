package peer

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

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
		s.state = "no holder" // closed, or not accepted yet
	}
	return s, peer, nil
}
