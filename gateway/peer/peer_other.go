//go:build !linux && !darwin

package peer

import (
	"net"
	"os"
)

// Process identifies nobody on this system.
type Process struct{}

// Listen returns ErrUnsupported.
func Listen(string) (*net.UnixListener, error) { return nil, ErrUnsupported }

// ListenAbstract returns ErrUnsupported.
func ListenAbstract() (*net.UnixListener, string, error) { return nil, "", ErrUnsupported }

// FromConn returns ErrUnsupported.
func FromConn(*net.UnixConn) (*Process, error) { return nil, ErrUnsupported }

// UID returns ErrUnsupported.
func UID(*net.UnixConn) (uint32, error) { return 0, ErrUnsupported }

// ListenGroup returns ErrUnsupported.
func ListenGroup(string) (*net.UnixListener, error) { return nil, ErrUnsupported }

// Who returns ErrUnsupported.
func Who(*net.UnixConn) (uint32, int, error) { return 0, 0, ErrUnsupported }

// Conn closes c: whose bytes it carries can't be known.
func Conn(c *net.UnixConn, _ *Process) net.Conn {
	c.Close()
	return c
}

// Admit returns ErrUnsupported.
func Admit(*net.UnixConn) error { return ErrUnsupported }

// Self returns ErrUnsupported.
func Self() (*Process, error) { return nil, ErrUnsupported }

// Find returns ErrUnsupported.
func Find(int) (*Process, error) { return nil, ErrUnsupported }

// Same returns ErrUnsupported.
func (p *Process) Same() error { return ErrUnsupported }

// Key is empty.
func (p *Process) Key() string { return "" }

// Facts are empty.
func (p *Process) Facts() Facts { return Facts{} }

// Ancestors returns ErrUnsupported.
func (p *Process) Ancestors() ([]*Process, error) { return nil, ErrUnsupported }

// Owner returns ErrUnsupported.
func (p *Process) Owner(func(string) bool) (*Process, []*Process, error) {
	return nil, nil, ErrUnsupported
}

// Descends answers true: unknown means less authority.
func (p *Process) Descends(func(string) bool) bool { return true }

// Orphan answers true: unknown means less authority.
func (p *Process) Orphan() bool { return true }

// Gone is closed never.
func (p *Process) Gone() <-chan struct{} { return nil }

// Signal returns ErrUnsupported.
func (p *Process) Signal(os.Signal) error { return ErrUnsupported }

// Close does nothing.
func (p *Process) Close() error { return nil }
