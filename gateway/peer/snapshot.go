package peer

import "time"

// Snapshot is evidence: what a process looked like at one moment, before
// anything is done to it. Commands, paths and names are text that the process or
// others chose: escape them wherever they are shown, and decide nothing by them.
type Snapshot struct {
	At          time.Time    `json:"at"`
	Process     Kin          `json:"process"`
	Exe         string       `json:"exe"`
	UID         uint32       `json:"uid"`  // effective
	User        string       `json:"user"` // its name; the number again if it has none
	Directory   string       `json:"workingDirectory"`
	Variables   []string     `json:"variables"` // names of the environment it was started with, sorted; never a value
	Descriptors []Descriptor `json:"descriptors"`
	Children    []Kin        `json:"children"`
	Group       []Kin        `json:"group"` // the others of its process group
	// Gaps says what could not be seen. A descriptor without peers has none that we
	// may see: with a gap, there may be one.
	Gaps []string `json:"gaps"`
}

// Kin is one process in a few words, as ps(1) prints them.
type Kin struct {
	Key     string    `json:"key"` // as Process.Key
	PID     int       `json:"pid"`
	PPID    int       `json:"ppid"`
	PGID    int       `json:"pgid"`
	SID     int       `json:"sid"`
	Stat    string    `json:"stat"`  // state, then < N L s l + as they apply: "Ssl+"
	ETime   string    `json:"etime"` // [[DD-]HH:]MM:SS since it started
	Start   time.Time `json:"start"`
	Comm    string    `json:"comm"`
	Command []string  `json:"command"` // arguments, of the first 64 KiB
}

// Descriptor is one open descriptor.
type Descriptor struct {
	FD     int    `json:"fd"`
	Mode   string `json:"mode"`   // "r", "w", "rw"
	Target string `json:"target"` // as the kernel names it: a path, pipe:[N], socket:[N], anon_inode:…
	Class  string `json:"class"`
	// Of a socket: its own address or path, the other end's, and the state of TCP.
	Local  string `json:"local,omitzero"`
	Remote string `json:"remote,omitzero"`
	State  string `json:"state,omitzero"`
	// Peers hold the other end of a pipe or a local socket: none, if nobody whom we
	// may see does.
	Peers []End `json:"peers,omitempty"`
}

// End is somebody else's descriptor at the other end.
type End struct {
	PID  int    `json:"pid"`
	FD   int    `json:"fd"`
	Comm string `json:"comm"`
}

// Values of Descriptor.Class. What a path or a holder's name suggests is a lead
// for people, as is its absence.
const (
	ClassFile       = "file"
	ClassKeyFile    = "key file" // its name is one that keys and tokens have
	ClassTerminal   = "terminal"
	ClassDevice     = "device"
	ClassPipe       = "pipe"
	ClassLocal      = "local socket"
	ClassSSHAgent   = "ssh-agent"
	ClassSSHControl = "ssh control"
	ClassHelper     = "credential helper"
	ClassTCP        = "tcp"
	ClassUDP        = "udp"
	ClassSocket     = "other socket"
	ClassKernel     = "kernel object" // epoll, timer, event, pidfd, …
)

// Place is where a process stands.
type Place struct {
	Dir string
	Env []string // "NAME=value" as it was started: holds secrets
	// Foreign: another root or mount namespace, where paths mean other files.
	Foreign bool
}
