// Package doctor looks at what the gateway depends on and does not make itself: folders, kernel, disk, clock. What it
// sees are values; what they mean is judged by pure functions, which say how each fault is mended.
//
// It changes nothing and asks nobody but the kernel.
package doctor

import "fmt"

// State is how a thing stands. The zero State is no answer, and counts as wrong.
type State string

const (
	OK    State = "ok"
	Hint  State = "hint"  // works; something is weaker than it could be, or is left to do
	Wrong State = "wrong" // does not work, or is not what it promises
)

// Finding is one thing that was looked at.
type Finding struct {
	Check string `json:"check"` // stable name
	State State  `json:"state"`
	Found string `json:"found"`         // for people
	Mend  string `json:"mend,omitzero"` // what to do; "" where State is OK
}

// Fine, Note and Fault make findings.
func Fine(check, format string, args ...any) Finding {
	return Finding{Check: check, State: OK, Found: fmt.Sprintf(format, args...)}
}

func Note(check, mend, format string, args ...any) Finding {
	return Finding{check, Hint, fmt.Sprintf(format, args...), mend}
}

func Fault(check, mend, format string, args ...any) Finding {
	return Finding{check, Wrong, fmt.Sprintf(format, args...), mend}
}

// Sound says that nothing is wrong. Hints are no faults.
func Sound(all []Finding) bool {
	for _, f := range all {
		if f.State != OK && f.State != Hint {
			return false
		}
	}
	return true
}
