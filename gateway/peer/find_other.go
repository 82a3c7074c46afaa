//go:build !linux

package peer

import "fmt"

// Find returns ErrUnsupported: a pid cannot be pinned here without a connection.
func Find(int) (*Process, error) { return nil, fmt.Errorf("find process: %w", ErrUnsupported) }
