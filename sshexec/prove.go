package sshexec

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"
)

// proofTimeout bounds the round trip of ProveShell.
const proofTimeout = 10 * time.Second

// awkward are the arguments of the round trip: every ASCII character but NUL,
// what a shell that reads quotes in another way would run or change (fish takes
// \\ and \' inside single quotes as escapes, csh expands "!" and refuses a
// newline), and UTF-8 whose second byte is one of dash's internal marks.
func awkward() []string {
	var ascii strings.Builder
	for c := byte(1); c < 0x80; c++ {
		ascii.WriteByte(c)
	}
	return []string{
		ascii.String(), "", " ", "~", "*", "$(echo run)", "`echo run`", ";echo run", "a\nb", "it's", `\`, `\\`, `\'`, `'\''`,
		"!!", "-n", "-oProxyCommand=x", "=ls", "@x", "%1", "A=b", "üñí", "\u00c1\u00c2\u00c3\u00c4\u00c5\u00c6\u00c7\u00c8", "😀",
	}
}

// ProveShell finds out what the account's login shell makes of our quoting: it
// has printf give back a list of awkward arguments. "posix" means that each came
// back byte for byte; anything else is "exact". What a profile prints before or
// after does not matter. An error means that the host gave no answer; it is a
// *DialError.
func (c *Conn) ProveShell(ctx context.Context) (string, error) {
	if c.l == nil {
		return "", &DialError{Reason: "dial_failed", Detail: "the connection was given back"}
	}
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	mark := rand.Text()
	args := append(append([]string{mark}, awkward()...), mark)
	var want strings.Builder
	for _, a := range args {
		fmt.Fprintf(&want, "%s/", a)
	}
	var out bytes.Buffer
	r := c.exec(ctx, quoteAll(append([]string{"printf", "%s/"}, args...)), nil, &out, nil)
	switch {
	case r.Outcome == Confirmed && r.ExitStatus == 0 && bytes.Contains(out.Bytes(), []byte(want.String())):
		return "posix", nil
	case r.Outcome == Confirmed, r.Outcome == FailedRemote:
		return "exact", nil
	case r.Reason == "deadline":
		return "", &DialError{Reason: "deadline", Detail: "the login shell gave no answer in time", cause: context.DeadlineExceeded}
	}
	return "", &DialError{Reason: "dial_failed", Detail: "the login shell gave no answer", cause: ctx.Err()}
}
