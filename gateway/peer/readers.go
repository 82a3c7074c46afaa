package peer

// Reader is a process that can read a pipe or socket.
type Reader struct {
	PID  int
	Key  string // as Process.Key
	Copy bool   // it has executed nothing since it was forked: a copy of its parent, for a moment mostly
}
