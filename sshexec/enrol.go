package sshexec

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"golang.org/x/crypto/ssh"
)

var errSeen = errors.New("key seen")

// Enrol asks the host at t.Address, through t.Via where there is one, for every host key it offers: one connection a
// type and never an authentication with the host itself. Of t only Address, AllowNetwork and Via are looked at, of a only
// Via. The whole takes DialTimeout at most. The keys come in authorized_keys form, each proven by a signature; whose they
// are is for the operator to compare. Errors: *RequestError for the arguments, else *DialError.
func Enrol(ctx context.Context, t Target, a Auth) ([]string, error) {
	d, err := planAddress(t.Address, t.AllowNetwork)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	var keys []ssh.PublicKey
	for _, kind := range hostKeyTypes() {
		k, peer, err := t.show(ctx, a, d, kind)
		if err != nil {
			return nil, err
		}
		if t.Via == nil {
			d.host = peer // all keys from one and the same machine
		}
		if k != nil && checkHostKey(k) == nil {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, &DialError{Reason: "dial_failed", Detail: "the host offers no key of a supported type"}
	}
	return sortKeys(keys), nil
}

// show gets the host's key of one type, nil if it has none, and the address asked.
func (t Target) show(ctx context.Context, a Auth, d dialPlan, keyType string) (ssh.PublicKey, string, error) {
	tcp, below, err := t.reach(ctx, a, d, systemLookup)
	if err != nil {
		return nil, "", err
	}
	defer below.wait()
	peer, err := netip.ParseAddrPort(tcp.RemoteAddr().String())
	if err != nil {
		_ = tcp.Close()
		return nil, "", dialError(ctx, err, "the peer has no address")
	}
	var seen ssh.PublicKey
	_, err = greet(ctx, &countConn{Conn: tcp}, &ssh.ClientConfig{
		HostKeyAlgorithms: signatureAlgorithms(keyType),
		HostKeyCallback: func(_ string, _ net.Addr, k ssh.PublicKey) error {
			seen = k
			return errSeen
		},
	})
	var none *ssh.AlgorithmNegotiationError
	if seen == nil && !(errors.As(err, &none) && none.What == "host key") {
		return nil, "", dialError(ctx, err, "the SSH handshake failed")
	}
	return seen, peer.Addr().Unmap().String(), nil
}
