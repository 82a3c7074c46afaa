package sshexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/crypto/ssh"
)

// Git serves one request of git, which m must cover: in is what the client says, out and errw what the host does, until
// either ends. in is closed at the end. Of a push, the list of ref updates is read and held against the rules before any
// of it is forwarded: one forbidden ref refuses the whole, and the Result's outcome is Denied. Whether an update is
// forced can't be seen there: that only the host can refuse.
func (c *Conn) Git(ctx context.Context, g Git, m Match, in io.ReadCloser, out, errw io.Writer) Result {
	defer in.Close()
	switch {
	case c.l == nil:
		return givenBack()
	case m.git == nil || m.line != string(g.Canonical()):
		return Result{Outcome: Denied, Reason: "rule_mismatch", Detail: "the rule was matched for another request"}
	}
	if c.s == nil {
		var err error
		if c.s, err = c.l.open(ctx); err != nil {
			return notSent(ctx, "the host opens no session")
		}
	}
	if g.in.Protocol != "" { // hosts that don't know it speak version 0
		env := ssh.Marshal(struct{ Name, Value string }{"GIT_PROTOCOL", g.in.Protocol})
		s := c.s
		c.l.work.run(func() { _, _ = s.ch.SendRequest("env", false, env) })
	}
	s, r, ok := c.begin(ctx, "exec", g.line())
	if !ok {
		return r
	}
	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	var refused atomic.Pointer[refRule]
	stop := context.AfterFunc(ctx, func() { _ = in.Close() })
	defer stop()
	r = c.l.follow(ctx, s, func(ctx context.Context) {
		defer context.AfterFunc(ctx, func() { _ = in.Close() })()
		src := io.Reader(in)
		if g.in.Service == receivePack {
			head, rule, err := m.git.updates(in)
			if rule != nil {
				refused.Store(rule)
			}
			if rule != nil || err != nil {
				refuse(errRefs)
				return
			}
			src = io.MultiReader(bytes.NewReader(head), in)
		}
		pass(ctx, s.ch, src)
	}, out, errw, nil)
	if rule := refused.Load(); rule != nil {
		return Result{Outcome: Denied, Sent: true, Reason: "rule_mismatch", Detail: "the push touches a ref that the rule " + strconv.Quote(rule.String()) + " keeps; nothing of it was forwarded"}
	}
	if context.Cause(ctx) == errRefs {
		return Result{Outcome: Denied, Sent: true, Reason: "rule_mismatch", Detail: "the push's list of refs can't be read, or it is signed, or has push options, which may do more than rules for refs see; nothing of it was forwarded"}
	}
	return r
}

var errRefs = errors.New("refused refs")

// pass copies until src or ctx ends.
func pass(ctx context.Context, ch ssh.Channel, src io.Reader) {
	buf := make([]byte, 64<<10)
	for ctx.Err() == nil {
		n, err := src.Read(buf)
		if n > 0 && ctx.Err() == nil {
			if _, werr := ch.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			break
		}
	}
	if ctx.Err() == nil {
		_ = ch.CloseWrite()
	}
}

// refUpdate is one command of a push.
type refUpdate struct {
	old, new, ref string
	caps          []string
}

func zeroID(s string) bool { return strings.Trim(s, "0") == "" }

func (u refUpdate) creates() bool { return zeroID(u.old) }
func (u refUpdate) deletes() bool { return zeroID(u.new) }

// maxUpdates bounds a push's list: bytes, so some ten thousand refs.
const maxUpdates = 4 << 20

// updates reads a push's commands up to their flush packet (gitprotocol-pack, "Reference Update Request"), and gives the
// bytes read, or the rule that refuses one of them. An empty list (nothing to push) is a flush or the end.
func (r *Rules) updates(in io.Reader) (head []byte, rule *refRule, err error) {
	for first := true; ; first = false {
		line, raw, err := readPkt(in)
		if errors.Is(err, io.EOF) && first {
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if head = append(head, raw...); len(head) > maxUpdates {
			return nil, nil, errors.New("read push: too many refs")
		}
		if line == nil {
			return head, nil, nil
		}
		u, ok, err := parseUpdate(line)
		if err != nil {
			return nil, nil, err
		}
		if len(r.refs) > 0 && slices.Contains(u.caps, "push-options") {
			return nil, nil, errors.New("read push: push options") // a forge may merge or move other refs by them
		}
		if !ok {
			continue
		}
		if x, no := r.forbids(u); no {
			return nil, &x, nil
		}
	}
}

// readPkt reads one pkt-line; a flush has no line. Other special packets don't belong here.
func readPkt(in io.Reader) (line, raw []byte, err error) {
	raw = make([]byte, 4, 256)
	if _, err := io.ReadFull(in, raw); err != nil {
		return nil, nil, err
	}
	n, err := strconv.ParseUint(string(raw), 16, 16)
	switch {
	case err != nil || n != 0 && n < 5 || strings.ContainsAny(string(raw), "+-_"):
		return nil, nil, errors.New("read push: no pkt-line")
	case n == 0:
		return nil, raw, nil
	}
	raw = append(raw, make([]byte, n-4)...)
	if _, err := io.ReadFull(in, raw[4:]); err != nil {
		return nil, nil, fmt.Errorf("read push: %w", err)
	}
	return raw[4:], raw, nil
}

// parseUpdate reads "OLD NEW REF", with capabilities behind a NUL. A shallow line is none; a push certificate, whose refs
// stand elsewhere, is refused.
func parseUpdate(line []byte) (refUpdate, bool, error) {
	text, caps, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), "\x00")
	if id, ok := strings.CutPrefix(text, "shallow "); ok && hexID(id) {
		return refUpdate{}, false, nil
	}
	f := strings.SplitN(text, " ", 3)
	if len(f) != 3 || !hexID(f[0]) || len(f[0]) != len(f[1]) || !hexID(f[1]) || f[2] == "" || strings.ContainsAny(f[2], " \n\x00") || strings.Contains(caps, "push-cert=") {
		return refUpdate{}, false, errors.New("read push: no ref update")
	}
	return refUpdate{f[0], f[1], f[2], strings.Fields(caps)}, true, nil
}

func hexID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}
