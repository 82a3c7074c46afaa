//go:build !linux

package peer

// Place returns ErrUnsupported.
func (p *Process) Place() (Place, error) { return Place{}, ErrUnsupported }

// Snapshot returns ErrUnsupported.
func (p *Process) Snapshot() (Snapshot, error) { return Snapshot{}, ErrUnsupported }

// Snapshots returns ErrUnsupported for each process.
func Snapshots(ps []*Process) ([]Snapshot, []error) {
	errs := make([]error, len(ps))
	for i := range errs {
		errs[i] = ErrUnsupported
	}
	return make([]Snapshot, len(ps)), errs
}

// Children returns ErrUnsupported.
func (p *Process) Children() ([]*Process, error) { return nil, ErrUnsupported }

// Group returns ErrUnsupported.
func (p *Process) Group() ([]*Process, error) { return nil, ErrUnsupported }

// Descendants returns ErrUnsupported.
func (p *Process) Descendants() ([]*Process, error) { return nil, ErrUnsupported }
