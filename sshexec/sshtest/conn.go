package sshtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
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
		if n.ChannelType() == "direct-tcpip" && h.o.Forward {
			wg.Go(func() { forward(ctx, n) })
			continue
		}
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
			a := Auth{User: m.User(), Fingerprint: ssh.FingerprintSHA256(k), OK: h.letsIn(m, k)}
			if c, ok := k.(*ssh.Certificate); ok {
				a.Serial, a.CertID = c.Serial, c.KeyId
			}
			return h.decided(ctx, a)
		},
	}
	if h.o.Password != "" {
		c.PasswordCallback = func(m ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			return h.decided(ctx, Auth{User: m.User(), OK: m.User() == h.o.User && string(password) == h.o.Password})
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.signers {
		c.AddHostKey(s)
	}
	return c
}

// decided notes an attempt and answers it.
func (h *Host) decided(ctx context.Context, a Auth) (*ssh.Permissions, error) {
	h.note(func(l *ledger) { l.auths = append(l.auths, a) })
	if h.o.Fault == StallAuth {
		<-ctx.Done()
	}
	if !a.OK {
		return nil, errors.New("unknown account or key")
	}
	return nil, nil
}

func (h *Host) letsIn(m ssh.ConnMetadata, k ssh.PublicKey) bool {
	if m.User() != h.o.User {
		return false
	}
	if _, ok := k.(*ssh.Certificate); ok {
		check := ssh.CertChecker{IsUserAuthority: func(ca ssh.PublicKey) bool { return sameKey(h.o.CA, ca) }}
		_, err := check.Authenticate(m, k)
		return err == nil
	}
	return sameKey(h.o.AuthorizedKey, k)
}

func sameKey(line string, k ssh.PublicKey) bool {
	a, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	return err == nil && bytes.Equal(a.Marshal(), k.Marshal())
}

// forward joins a direct-tcpip channel (RFC 4254, section 7.2) with a port of loopback.
func forward(ctx context.Context, n ssh.NewChannel) {
	var to struct {
		Host     string
		Port     uint32
		From     string
		FromPort uint32
	}
	var d net.Dialer
	if err := ssh.Unmarshal(n.ExtraData(), &to); err != nil || to.Host != "127.0.0.1" {
		_ = n.Reject(ssh.Prohibited, "no")
		return
	}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(to.Host, strconv.FormatUint(uint64(to.Port), 10)))
	if err != nil {
		_ = n.Reject(ssh.ConnectionFailed, "no")
		return
	}
	defer c.Close()
	ch, reqs, err := n.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(reqs)
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(c, ch)
		_ = c.Close()
	}()
	_, _ = io.Copy(ch, c)
	_ = ch.Close()
	<-done
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
			wg.Go(func() { h.run(ctx, ch, h.o.Shell, line) })
		case r.Type == "subsystem" && execLine(r) == "sftp" && h.o.SFTP != nil:
			_ = r.Reply(true, nil)
			wg.Go(func() { h.run(ctx, ch, h.o.SFTP, "") })
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

// execLine is the one string of an exec or subsystem request.
func execLine(r *ssh.Request) string {
	var m struct{ Line string }
	_ = ssh.Unmarshal(r.Payload, &m)
	return m.Line
}

func (h *Host) run(ctx context.Context, ch ssh.Channel, shell Shell, line string) {
	e := shell(ctx, Exec{Line: line, Stdin: ch, Stdout: ch, Stderr: ch.Stderr()})
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
