package authz

import "fmt"

// RunState is where one live instance of an agent client stands.
type RunState uint8

const (
	Pending  RunState = iota + 1 // seen, nothing granted
	Active                       // has at least one live grant
	Orphaned                     // the client is gone, something of the run is not
	Denied                       // two cards denied
	Revoked                      // final
	Ended                        // nothing local or remote is left
)

func (s RunState) String() string {
	return word(int(s), "invalid", "pending", "active", "orphaned", "denied", "revoked", "ended")
}

// ParseRunState reads a state's word. An unknown word is the invalid state.
func ParseRunState(w string) RunState {
	for s := Pending; s <= Ended; s++ {
		if s.String() == w {
			return s
		}
	}
	return 0
}

// RunEvent is what can happen to a run.
type RunEvent uint8

const (
	Granted        RunEvent = iota + 1 // a grant was issued
	DeniedTwice                        // a second card was denied, or a later one
	Revoke                             // by the operator
	ClientGoneBusy                     // the client died; something is connected, in flight or unfinished far away
	ClientGoneIdle                     // the client died; nothing is
	Drained                            // the last thing of an orphan is finished
	Lock                               // every grant is void: the vault was locked, the gateway restarted, the last grant ended
	CleanEnd                           // the client closed its connections and exited
)

func (e RunEvent) String() string {
	return word(int(e), "invalid", "granted", "denied twice", "revoke", "client gone, busy", "client gone, idle", "drained", "lock", "clean end")
}

// Next returns the state after e. An impossible pair is an error and leaves the state. News that comes late to a state
// that can lose nothing more by it is no error.
func (s RunState) Next(e RunEvent) (RunState, error) {
	switch s {
	case Pending, Denied:
		switch e {
		case Granted:
			return Active, nil
		case DeniedTwice:
			return Denied, nil
		case Revoke:
			return Revoked, nil
		case ClientGoneBusy:
			return Orphaned, nil
		case ClientGoneIdle, CleanEnd:
			return Ended, nil
		case Lock:
			return s, nil
		}
	case Active:
		switch e {
		case Granted, DeniedTwice: // a denied card refuses its own call only
			return Active, nil
		case Revoke:
			return Revoked, nil
		case ClientGoneBusy:
			return Orphaned, nil
		case Lock:
			return Pending, nil
		case ClientGoneIdle, CleanEnd:
			return Ended, nil
		}
	case Orphaned:
		switch e {
		case Revoke:
			return Revoked, nil
		case Drained:
			return Ended, nil
		case ClientGoneBusy, ClientGoneIdle, Lock:
			return Orphaned, nil
		}
	case Revoked:
		switch e {
		case Revoke, ClientGoneBusy, ClientGoneIdle, Drained, Lock, CleanEnd:
			return Revoked, nil
		}
	case Ended:
		switch e {
		case Revoke:
			return Revoked, nil
		case ClientGoneBusy, ClientGoneIdle, Drained, Lock, CleanEnd:
			return Ended, nil
		}
	}
	return s, fmt.Errorf("move run: %s while %s", e, s)
}
