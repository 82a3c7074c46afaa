// Package httpexec sends one judged request to a checked address.
//
// # Requests
//
// ParseRequest takes structured input, refuses what two programs could read in two
// ways, and rebuilds the rest from canonical parts. What a Request prints is what
// Rules judge and, byte for byte, what Do writes. The canonical form: upper-case
// method; https or http; lower-case host without a trailing dot; no default port;
// each path segment with unreserved characters (RFC 3986 section 2.3) as they are,
// reserved ones as they came, all else as upper-case %XX; the query as key=value
// pairs in order, all but unreserved characters escaped, a space as %20.
//
// # Rules
//
// One rule is METHODS ORIGIN/PATH[?KEY=PATTERN[&KEY=PATTERN]]:
//
//	GET,POST https://api.github.com/repos/**
//	GET https://*.example.com/v1/*/items?page=*
//	GET https://gitlab.com/api/v4/projects/{raw}/issues
//
// A host may begin with "*." for exactly one label, never below a public suffix.
// In a path, "*" is one segment, "{raw}" one segment that may hold %2F or ";", and
// a last "**" one or more segments (the last may be empty: a trailing slash). After
// "?", each named key must be there exactly once with a value that matches; other
// keys are free. In a PATTERN "*" is any run of characters, also none. A rule is
// written in canonical form only, so that printing a parsed rule gives the same text.
//
// # Outcomes
//
// Result says what is known and no more. The exchange is our own, in the caller's
// goroutine, not http.Transport's: nothing is ever sent twice, and whether a byte
// left is counted below TLS.
package httpexec
