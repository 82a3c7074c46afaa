package wrap

import "slices"

// waiting is what the host said while nothing could be done with it.
type waiting struct {
	held  []message // until a server is ready
	early []message // tools/calls, until the gateway knows the server's tools
}

// wait keeps a message. Where too many are kept already, a request is refused and the rest is dropped.
func (w *wrapper) wait(where *[]message, m message) {
	if len(*where) < heldLimit {
		*where = append(*where, m)
	} else if isRequest(m) {
		w.reply(m, failure(m.id, codeTooMany, "too many requests wait for the server to start"))
	}
}

// hold keeps a message until a server is ready.
func (w *wrapper) hold(m message) { w.wait(&w.held, m) }

// letGo takes what waited, as if it came now.
func (w *wrapper) letGo(where *[]message) {
	all := *where
	*where = nil
	for _, m := range all {
		w.take(m)
	}
}

// letAllGo takes what waits for a server that will not come.
func (w *wrapper) letAllGo() {
	w.fetching, w.stale = false, false
	w.letGo(&w.early)
	w.letGo(&w.held)
}

// unwait takes out what waits, and returns the requests among it, whose answers are the caller's now.
func (w *wrapper) unwait() []message {
	all := slices.Concat(w.early, w.held)
	w.early, w.held = nil, nil
	return slices.DeleteFunc(all, func(m message) bool {
		if !isRequest(m) {
			w.note(m)
		}
		return !isRequest(m)
	})
}

// unhold forgets a request that waits, for whom nobody was asked yet. A handshake is not called off.
func (w *wrapper) unhold(key string) (found bool) {
	for _, where := range []*[]message{&w.early, &w.held} {
		*where = slices.DeleteFunc(*where, func(m message) bool {
			off := isRequest(m) && m.key == key && m.method != "initialize"
			found = found || off
			return off
		})
	}
	return found
}

func isRequest(m message) bool { return m.id != nil && m.method != "" }
