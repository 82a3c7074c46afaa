package peer

import "strings"

// Exchanged says whether the file that p's program was started from is no longer
// the one at its path: it was removed, or another one was put in its place. The
// process runs on with the old image. Nothing is opened by name for it.
func (p *Process) Exchanged() bool {
	link, err := procLink(p.handle.pid, "exe")
	return err == nil && strings.HasSuffix(link, " (deleted)") && !p.handle.exited()
}
