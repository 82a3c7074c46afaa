package httpexec

// Outcome is what is known of a call once Do has returned.
type Outcome uint8

const (
	SentUnconfirmed     Outcome = iota // zero: bytes left and no answer came; what happened is unknown
	Denied                             // nothing was dialled, or the dial was refused by policy
	NotSent                            // provably no byte of the request left
	Confirmed                          // a final status line and header came
	RedirectNotFollowed                // 3xx, returned as data
	FailedRemote                       // a protocol answer that is no result (101)
	Accepted                           // a remote job was started
)

// String returns the word used on the wire and in the log.
func (o Outcome) String() string {
	switch o {
	case Denied:
		return "denied"
	case NotSent:
		return "not_sent"
	case Confirmed:
		return "confirmed"
	case RedirectNotFollowed:
		return "redirect_not_followed"
	case FailedRemote:
		return "failed_remote"
	case Accepted:
		return "accepted"
	default:
		return "sent_unconfirmed"
	}
}

// The codes a RequestError and a Result's Reason can have, besides outcome words.
const (
	codeInvalid  = "invalid_request"
	codeHeader   = "header_refused"
	codeMismatch = "rule_mismatch"
	codeAddress  = "address_refused"
	codeDial     = "dial_failed"
	codeDeadline = "deadline"
)

// RequestError says why a request is refused before anything is dialled. Code is
// invalid_request, header_refused or rule_mismatch. Reason names the part and the
// next step; it never holds a header's value.
type RequestError struct {
	Code, Reason string
}

func (e *RequestError) Error() string { return e.Code + ": " + e.Reason }

func invalid(reason string) error { return &RequestError{Code: codeInvalid, Reason: reason} }
