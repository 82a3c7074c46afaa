package sshexec

import "fmt"

// RequestError refuses a command or a rule. Code is "invalid_request" or
// "rule_mismatch"; Reason is one sentence and never holds a value from stdin.
type RequestError struct{ Code, Reason string }

func (e *RequestError) Error() string { return e.Code + ": " + e.Reason }

func invalid(format string, a ...any) error {
	return &RequestError{Code: "invalid_request", Reason: fmt.Sprintf(format, a...)}
}

// HostKeyError says that the host did not show a pinned key. No authentication
// was tried. Want and Got are fingerprints (SHA256:…), Want separated by commas;
// Got is empty if the host offers no key of a pinned type.
type HostKeyError struct{ Target, Want, Got string }

func (e *HostKeyError) Error() string {
	if e.Got == "" {
		return fmt.Sprintf("verify host key of %s: no key of a pinned type is offered, pinned %s", e.Target, e.Want)
	}
	return fmt.Sprintf("verify host key of %s: got %s, pinned %s", e.Target, e.Got, e.Want)
}

// DialError says why there is no connection. Nothing of a command was sent.
// Reason is a code: dial_failed, deadline, address_refused or host_key_changed.
// Detail is our own sentence: no text from the host, no secret.
type DialError struct {
	Reason string
	Detail string

	cause error // *HostKeyError or the context's error; else nil
}

func (e *DialError) Error() string { return "dial host: " + e.Reason + ": " + e.Detail }

// Unwrap gives the *HostKeyError behind host_key_changed, or the context's error.
func (e *DialError) Unwrap() error { return e.cause }
