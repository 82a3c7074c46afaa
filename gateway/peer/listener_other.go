//go:build !linux

package peer

import (
	"net"
	"time"
)

// Listener is nobody on this system.
type Listener struct{}

// ListenerOf returns ErrUnsupported.
func ListenerOf(*net.UnixConn) (*Listener, error) { return nil, ErrUnsupported }

// PID is 0.
func (l *Listener) PID() int { return 0 }

// Entry returns ErrUnsupported.
func (l *Listener) Entry() (Entry, error) { return Entry{}, ErrUnsupported }

// Kill returns ErrUnsupported.
func (l *Listener) Kill(time.Duration) error { return ErrUnsupported }

// Close does nothing.
func (l *Listener) Close() error { return nil }
