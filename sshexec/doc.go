// Package sshexec runs one judged command on a pinned host.
//
// A command is an argv (each element single-quoted for a POSIX login shell) or
// one raw shell string. Rules are matched against the argv before it is quoted;
// what Line returns is byte for byte what the remote login shell is given.
//
// A host is known by its pinned keys alone: no ssh_config, no known_hosts file
// of the user, no agent, no environment. The key is needed only while Dial runs.
//
// # Rules
//
// A rule is a list of elements, as many as the argv it allows. Each is one of
//
//	"*"     a wildcard: one non-empty element that does not begin with "-"
//	"\*"   a literal star; before anything else a backslash stands for itself
//	other   that text, byte for byte
//
// A star inside a longer element must be written "\*" (there are no globs), the
// first element names the command and is never a wildcard, and a wildcard that
// stands behind a program which starts other programs (sudo, env, xargs …)
// never matches an interpreter: those run only where the rule names them. On a
// host whose login shell failed the round trip ("exact") rules hold no wildcard
// and no character whose quoting differs between shells.
//
// # Outcomes
//
// NotSent is said only when provably no byte of the exec request left. A closed
// channel is not success: without exit-status and exit-signal the outcome is
// SentUnconfirmed, the zero value. See RFC 4254, section 6.10.
package sshexec
