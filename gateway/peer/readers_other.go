//go:build !linux

package peer

import "time"

// Began returns ErrUnsupported.
func (p *Process) Began() (time.Duration, error) { return 0, ErrUnsupported }

// Executed returns ErrUnsupported.
func (p *Process) Executed() (bool, error) { return false, ErrUnsupported }

// FedBy returns ErrUnsupported.
func (p *Process) FedBy(*Process) (string, error) { return "", ErrUnsupported }

// Readers returns ErrUnsupported.
func (p *Process) Readers(string) ([]Reader, error) { return nil, ErrUnsupported }
