package sshtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/crypto/ssh"
)

func (h *Host) serve(c net.Conn) {
	switch h.o.Fault {
	case Silent:
		_, _ = io.Copy(io.Discard, c)
		return
	case StallKex:
		_, _ = io.WriteString(c, "SSH-2.0-stall\r\n")
		_, _ = io.Copy(io.Discard, c)
		return
	}
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	conn, chans, reqs, err := ssh.NewServerConn(&watched{c, cancel}, h.config(ctx))
	if err != nil {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { ssh.DiscardRequests(reqs) })
	if h.o.Fault == OpensChannel {
		wg.Go(func() {
			for _, kind := range []string{"forwarded-tcpip", "x11", "auth-agent@openssh.com", "session"} {
				_, _, err := conn.OpenChannel(kind, nil)
				var no *ssh.OpenChannelError
				if errors.As(err, &no) {
					h.note(func(l *ledger) { l.rejected++ })
				}
			}
		})
	}
	var open atomic.Int32
	for n := range chans {
		full := h.o.Fault == NoSession || h.o.Fault == OneSession && open.Load() > 0
		if n.ChannelType() != "session" || full {
			_ = n.Reject(ssh.ResourceShortage, "no")
			continue
		}
		ch, reqs, err := n.Accept()
		if err != nil {
			break
		}
		open.Add(1)
		wg.Go(func() {
			h.session(ctx, ch, reqs)
			open.Add(-1)
		})
	}
	cancel()
	_ = conn.Close()
	wg.Wait()
}

// watched ends ctx with the connection, so that a command or a stall ends too.
type watched struct {
	net.Conn
	gone context.CancelFunc
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err != nil {
		w.gone()
	}
	return n, err
}

func (h *Host) config(ctx context.Context) *ssh.ServerConfig {
	c := &ssh.ServerConfig{
		Config: ssh.Config{RekeyThreshold: h.o.RekeyBytes},
		PublicKeyCallback: func(m ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
			ok := m.User() == h.o.User && h.authorized(k)
			h.note(func(l *ledger) {
				l.auths = append(l.auths, Auth{User: m.User(), Fingerprint: ssh.FingerprintSHA256(k), OK: ok})
			})
			if h.o.Fault == StallAuth {
				<-ctx.Done()
			}
			if !ok {
				return nil, errors.New("unknown account or key")
			}
			return nil, nil
		},
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.signers {
		c.AddHostKey(s)
	}
	return c
}

func (h *Host) authorized(k ssh.PublicKey) bool {
	a, _, _, _, err := ssh.ParseAuthorizedKey([]byte(h.o.AuthorizedKey))
	return err == nil && bytes.Equal(a.Marshal(), k.Marshal())
}

// session serves one channel: one exec, its signals.
func (h *Host) session(ctx context.Context, ch ssh.Channel, reqs <-chan *ssh.Request) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for r := range reqs {
		switch {
		case r.Type == "exec" && h.o.Fault == StallExec:
			h.note(func(l *ledger) { l.commands = append(l.commands, execLine(r)) })
		case r.Type == "exec" && h.o.Fault != RefusesExec:
			line := execLine(r)
			h.note(func(l *ledger) { l.commands = append(l.commands, line) })
			_ = r.Reply(true, nil)
			wg.Go(func() { h.run(ctx, ch, line) })
		case r.Type == "signal":
			var m struct{ Name string }
			_ = ssh.Unmarshal(r.Payload, &m)
			h.note(func(l *ledger) { l.signals = append(l.signals, m.Name) })
			if !h.o.RefuseSignals {
				cancel(SignalError(m.Name))
			}
			_ = r.Reply(!h.o.RefuseSignals, nil)
		default:
			_ = r.Reply(false, nil)
		}
	}
	cancel(nil)
	wg.Wait()
}

func execLine(r *ssh.Request) string {
	var m struct{ Line string }
	_ = ssh.Unmarshal(r.Payload, &m)
	return m.Line
}

func (h *Host) run(ctx context.Context, ch ssh.Channel, line string) {
	e := h.o.Shell(ctx, Exec{Line: line, Stdin: ch, Stdout: ch, Stderr: ch.Stderr()})
	var s SignalError
	if errors.As(context.Cause(ctx), &s) && e.Signal == "" && !e.None {
		e.Signal = string(s)
	}
	switch {
	case e.None:
	case e.Signal != "":
		_, _ = ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Name    string
			Core    bool
			Message string
			Lang    string
		}{e.Signal, false, "", ""}))
	default:
		_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{e.Status}))
	}
	if e.Hold {
		<-ctx.Done()
	}
	_ = ch.Close()
}
