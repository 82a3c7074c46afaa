//go:build !linux

package peer

// CallRoll returns ErrUnsupported.
func CallRoll() (Roll, error) { return nil, ErrUnsupported }

// KeyOf returns ErrUnsupported.
func (r Roll) KeyOf(int) (string, error) { return "", ErrUnsupported }

// Condition returns ErrUnsupported.
func (p *Process) Condition() (Condition, error) { return Condition{}, ErrUnsupported }

// Unread returns ErrUnsupported.
func (p *Process) Unread() (int, error) { return 0, ErrUnsupported }
