// Package sshexec does one judged thing on a pinned host: a command, a job that
// outlives its connection, the transfer of one file, or a request of git.
//
// A command is an argv (each element single-quoted for a POSIX login shell) or
// one raw shell string. Rules are matched against the argv before it is quoted;
// what Line returns is byte for byte what the remote login shell is given.
//
// A host is known by its pinned keys alone: no ssh_config, no known_hosts file
// of the user, no agent, no environment. The same holds for each jump host on
// the way. The secret (a key, a password, or the key of a CA that signs one
// certificate for one call) is needed only while Dial runs.
//
// # Rules
//
// An argv rule is a list of elements, as many as the argv it allows. Each is one of
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
// A file may be uploaded to, or downloaded from, the folders of its rule and
// below them. A path is absolute and plain; neither its folder nor its end may
// be a symbolic link, so what the rule names is what is touched.
//
// A repository is named as git writes its path. A rule for refs is
//
//	no-push REF | create-only REF | no-delete REF
//
// with a full ref, in which a segment "*" stands for any one segment. Letters are
// compared without case. A push that touches one forbidden ref is refused whole,
// before any of it is forwarded.
//
// # Outcomes
//
// NotSent is said only when provably no byte of the request left. A closed
// channel is not success: without exit-status and exit-signal the outcome is
// SentUnconfirmed, the zero value. See RFC 4254, section 6.10. A job's start is
// Accepted; its exit status is found later, by its id alone. A transfer changes
// the path by its last step: until then a failure is FailedRemote, which says
// that the file on the host is unchanged.
package sshexec
