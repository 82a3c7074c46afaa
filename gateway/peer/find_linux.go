package peer

import "fmt"

// Find pins the process that has pid now. A pid names nobody for long: compare Key with what was known of the process.
func Find(pid int) (*Process, error) {
	h, err := openHandle(pid)
	if err != nil {
		return nil, fmt.Errorf("find process: %w", err)
	}
	p, err := pin(h, asPeer, false)
	if err != nil {
		h.f.Close()
		return nil, fmt.Errorf("find process: %w", err)
	}
	return p, nil
}
