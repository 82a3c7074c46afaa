// Package sshtest is an SSH host inside the process: for tests, and for the demo.
// It knows one account with one key, keeps a ledger of what it was asked, and
// can be told to misbehave. It listens on loopback alone.
package sshtest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
)

// Fault is a way to misbehave; the zero value is none.
type Fault uint8

const (
	None         Fault = iota
	Silent             // accepts TCP and says nothing
	StallKex           // sends its version and stops
	StallAuth          // never answers an authentication
	OpensChannel       // opens a channel to the client once it is in
	RefusesExec        // answers every exec request with a failure
	StallExec          // never answers an exec request
	OneSession         // allows one channel at a time
	NoSession          // allows no channel
)

// Options of one Host.
type Options struct {
	User          string
	AuthorizedKey string // authorized_keys form; empty: nobody gets in
	Shell         Shell  // nil: Builtins
	KeyTypes      []string
	Fault         Fault
	RefuseSignals bool   // as OpenSSH does for root
	RekeyBytes    uint64 // a new key exchange after so many bytes; 0: rarely
	Password      string // also lets the user in; empty: none does
	CA            string // authorized_keys form: certificates it signed for the user let in
	Forward       bool   // be a jump host to loopback
	SFTP          Shell  // serves the subsystem sftp; nil: there is none
}

// Auth is one authentication attempt: with a key, a certificate, or (no Fingerprint) a password.
type Auth struct {
	User, Fingerprint string
	OK                bool
	Serial            uint64 // of a certificate
	CertID            string
}

// Host is a running host. All methods are safe for concurrent use.
type Host struct {
	o       Options
	l       net.Listener
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	signers []ssh.Signer

	mu     sync.Mutex
	ledger ledger
	conns  map[net.Conn]struct{}
}

type ledger struct {
	commands, signals []string
	auths             []Auth
	opened, rejected  int
}

// Start listens on 127.0.0.1 until ctx ends or Close is called. KeyTypes are
// "ed25519" (default), "rsa", "ecdsa"; fresh keys each time.
func Start(ctx context.Context, o Options) (*Host, error) {
	if len(o.KeyTypes) == 0 {
		o.KeyTypes = []string{"ed25519"}
	}
	if o.Shell == nil {
		o.Shell = Builtins
	}
	h := &Host{o: o, conns: map[net.Conn]struct{}{}}
	for _, t := range o.KeyTypes {
		s, err := newSigner(t)
		if err != nil {
			return nil, err
		}
		h.signers = append(h.signers, s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	h.l = l
	h.ctx, h.cancel = context.WithCancel(ctx)
	h.wg.Go(h.accept)
	h.wg.Go(func() {
		<-h.ctx.Done()
		_ = h.l.Close()
		h.DropConns()
	})
	return h, nil
}

func newSigner(kind string) (ssh.Signer, error) {
	k, err := generate(kind)
	if err != nil {
		return nil, err
	}
	s, err := ssh.NewSignerFromKey(k)
	if err != nil {
		return nil, fmt.Errorf("make host key: %w", err)
	}
	return s, nil
}

// Addr is HOST:PORT.
func (h *Host) Addr() string { return h.l.Addr().String() }

// HostKeys are the public keys in authorized_keys form.
func (h *Host) HostKeys() []string {
	var s []string
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.signers {
		s = append(s, strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(k.PublicKey())), "\n"))
	}
	return s
}

// ChangeKeys gives the host fresh keys of the same types, for new connections.
func (h *Host) ChangeKeys() error {
	var fresh []ssh.Signer
	for _, t := range h.o.KeyTypes {
		s, err := newSigner(t)
		if err != nil {
			return err
		}
		fresh = append(fresh, s)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.signers = fresh
	return nil
}

// Commands are the exec lines the host was given, in order.
func (h *Host) Commands() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ledger.commands)
}

// Signals are the names the host was sent.
func (h *Host) Signals() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ledger.signals)
}

// Auths are the authentication attempts.
func (h *Host) Auths() []Auth {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ledger.auths)
}

// Opened counts the connections ever accepted.
func (h *Host) Opened() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ledger.opened
}

// Open counts the connections open now.
func (h *Host) Open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns)
}

// Rejected counts the channels of ours that the client refused (OpensChannel).
func (h *Host) Rejected() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ledger.rejected
}

// DropConns cuts every open connection.
func (h *Host) DropConns() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.conns {
		_ = c.Close()
	}
}

// Close stops the host and returns when nothing of it runs any more.
func (h *Host) Close() {
	h.cancel()
	h.wg.Wait()
}

func (h *Host) note(f func(l *ledger)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(&h.ledger)
}

func (h *Host) accept() {
	for {
		c, err := h.l.Accept()
		if err != nil {
			return
		}
		h.mu.Lock()
		h.conns[c] = struct{}{}
		h.ledger.opened++
		gone := h.ctx.Err() != nil
		h.mu.Unlock()
		if gone {
			_ = c.Close()
		}
		h.wg.Go(func() {
			h.serve(c)
			_ = c.Close()
			h.mu.Lock()
			delete(h.conns, c)
			h.mu.Unlock()
		})
	}
}
