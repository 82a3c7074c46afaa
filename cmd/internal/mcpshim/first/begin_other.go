//go:build !linux

package first

// Begin does nothing.
func Begin() {}

// Begun returns what was said before main: nothing here, where nothing shows the arguments before os does.
func Begun() (said Session, rest []byte, ended bool) { return Session{}, nil, false }
