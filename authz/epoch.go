package authz

import "fmt"

// EpochState is where one process instance stands. An agent's own shim begins Live; a supervised server begins
// IdentityPending, and each process that replaces it is a new epoch that begins there again.
type EpochState uint8

const (
	Live            EpochState = iota + 1 // may act, within its grants
	IdentityPending                       // seen; its catalog is unknown, nothing is forwarded
	CatalogReady                          // its tools are known; nobody approved them yet
	EpochEnded                            // gone or replaced
)

func (s EpochState) String() string {
	return word(int(s), "invalid", "live", "identity-pending", "catalog-ready", "ended")
}

// EpochEvent is what can happen to an epoch.
type EpochEvent uint8

const (
	Replaced       EpochEvent = iota + 1 // another process speaks in its place
	CatalogFetched                       // all pages of its tools/list
	Approved                             // the operator approved the scope it needs
	Gone                                 // its process ended
)

func (e EpochEvent) String() string {
	return word(int(e), "invalid", "replaced", "catalog fetched", "approved", "gone")
}

// Next returns the state after e. An impossible pair is an error and leaves the state.
func (s EpochState) Next(e EpochEvent) (EpochState, error) {
	switch s {
	case Live:
		switch e {
		case Replaced, Gone:
			return EpochEnded, nil
		case CatalogFetched, Approved: // a changed contract is no longer covered by the grants; the epoch is the same
			return Live, nil
		}
	case IdentityPending:
		switch e {
		case Replaced, Gone:
			return EpochEnded, nil
		case CatalogFetched:
			return CatalogReady, nil
		}
	case CatalogReady:
		switch e {
		case Replaced, Gone:
			return EpochEnded, nil
		case CatalogFetched:
			return CatalogReady, nil
		case Approved:
			return Live, nil
		}
	case EpochEnded:
		switch e {
		case Replaced, Gone:
			return EpochEnded, nil
		}
	}
	return s, fmt.Errorf("move epoch: %s while %s", e, s)
}
