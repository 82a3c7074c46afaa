package peer

import (
	"fmt"
	"net"
)

// ListenAbstract returns ErrUnsupported: macOS has no abstract names.
func ListenAbstract() (l *net.UnixListener, addr string, err error) {
	return nil, "", fmt.Errorf("listen: abstract names: %w", ErrUnsupported)
}

// markListener has nothing to set here; the path's mode is set by Listen.
func markListener(int) error { return nil }
