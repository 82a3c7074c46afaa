package vault

// NewPages hands the tests locked memory and its end.
func NewPages(n int) (b []byte, wipe func()) {
	p := newPages(n)
	return p.b, p.wipe
}
