package httpexec

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestAddresses(t *testing.T) {
	for _, a := range strings.Fields(`
		0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.255 169.254.1.1 172.16.0.1 172.31.255.255
		192.0.0.1 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255
		:: ::1 ::2 ::7f00:1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b:1::1 100::1
		2001::1 2001:0:1::1 2001:10::1 2001:20::1 2001:db8::1 2002:7f00:1:: 3fff::1 fc00::1 fd00::1 fd12:3456::1 fe80::1 febf::1 fec0::1 feff::1 ff02::1
		4000::1 1::1 fe80::1%eth0 2606:4700::1111%eth0
		169.254.169.254 169.254.170.2 168.63.129.16 100.100.100.200 192.0.0.192 fd00:ec2::254 fd20:ce::254 ::ffff:168.63.129.16`) {
		if checkAddr(netip.MustParseAddr(a), nil) == nil {
			t.Errorf("%s allowed", a)
		}
	}
	if checkAddr(netip.Addr{}, nil) == nil {
		t.Error("the zero address allowed")
	}
	for _, a := range strings.Fields(`1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.1 126.255.255.255 128.0.0.1 172.15.0.1 172.32.0.1 192.0.1.1
		192.167.255.255 198.17.255.255 198.20.0.1 223.255.255.255 ::ffff:8.8.8.8 2606:4700::1111 2001:4860::8888 2a00::1`) {
		if err := checkAddr(netip.MustParseAddr(a), nil); err != nil {
			t.Errorf("%s refused", a)
		}
	}
	all := prefixes("0.0.0.0/0", "::/0")
	for _, a := range strings.Fields(`169.254.169.254 169.254.170.23 168.63.129.16 ::ffff:169.254.169.254 fd00:ec2::254 fd00:ec2::23
		169.254.169.253 64:ff9b::a9fe:a9fe 64:ff9b:1::a9fe:a9fe 2002:a9fe:a9fe::1 ::a9fe:a9fe 0.0.0.0 :: 224.0.0.1 ff02::1`) {
		if checkAddr(netip.MustParseAddr(a), all) == nil {
			t.Errorf("%s opened by a rule", a)
		}
	}
	ten := prefixes("10.1.0.0/16", "fd00::/8")
	for a, ok := range map[string]bool{"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.2.0.1": false, "fd00::1": true, "fc00::1": false, "127.0.0.1": false, "1.1.1.1": true} {
		if err := checkAddr(netip.MustParseAddr(a), ten); (err == nil) != ok {
			t.Errorf("%s with allowed networks: %v", a, err)
		}
	}
	local := dialPolicy{loopbackOnly: true, nets: prefixes("127.0.0.0/8")}
	if local.check(netip.MustParseAddr("127.0.0.1")) != nil || local.check(netip.MustParseAddr("1.1.1.1")) == nil {
		t.Error("plain http for loopback's sake must reach loopback, and only that")
	}
}

func TestHostileAddresses(t *testing.T) {
	s := serveRaw(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	port := s.url[strings.LastIndex(s.url, ":"):]
	spec := Spec{Kind: "bearer", AllowHTTP: true}
	refused := func(t *testing.T, res Resolver, spec Spec) {
		c := NewClient(ClientOptions{Resolver: res})
		defer c.Close()
		r, _ := call(t, c, spec, Input{URL: "http://api.example.com" + port + "/x"})
		if r.Outcome != Denied || r.Reason != "address_refused" || r.Sent != 0 {
			t.Errorf("%+v", r)
		}
		if conns, _ := s.seen(); conns != 0 {
			t.Errorf("%d connections", conns)
		}
	}
	hostile(t, "H06", func(t *testing.T) {
		// The name is looked up once and the checked address is dialled, so that the
		// second answer is never used: the first one leads nowhere here.
		f := resolving("203.0.113.7", "127.0.0.1")
		open := spec
		open.AllowNetwork = []string{"203.0.113.0/24"}
		c := NewClient(ClientOptions{Resolver: f})
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		r, _ := callCtx(t, ctx, ctx, c, open, Input{URL: "http://api.example.com" + port + "/x"})
		if conns, _ := s.seen(); r.Outcome != NotSent || conns != 0 || f.asked != 1 {
			t.Errorf("%+v, %d connections, %d lookups", r, conns, f.asked)
		}
		// And were another address dialled, the socket's own check refuses it.
		l, err := dialFirst(context.Background(), []netip.Addr{netip.MustParseAddr("127.0.0.1")}, 1, dialPolicy{})
		if l != nil || !errors.Is(err, errRefused) {
			t.Errorf("dial guard: %v", err)
		}
		refused(t, resolving("127.0.0.1"), spec)
	})
	hostile(t, "H07", func(t *testing.T) {
		refused(t, resolving("::ffff:169.254.169.254"), spec)
		all := spec
		all.AllowNetwork = []string{"0.0.0.0/0", "::/0"}
		refused(t, resolving("::ffff:169.254.169.254"), all)
	})
	hostile(t, "H08", func(t *testing.T) {
		refused(t, resolving("1.1.1.1 10.0.0.1"), spec)
		refused(t, resolving("10.0.0.1 1.1.1.1"), spec)
	})

	// A rule that may say http because its name is loopback reaches nothing else.
	c := NewClient(ClientOptions{Resolver: resolving("1.1.1.1")})
	defer c.Close()
	r, _ := call(t, c, Spec{Kind: "bearer"}, Input{URL: "http://localhost" + port + "/x"})
	if r.Outcome != Denied || r.Reason != "address_refused" {
		t.Errorf("http to a localhost that is elsewhere: %+v", r)
	}
}

func TestDialFailures(t *testing.T) {
	const dead = "http://127.0.0.1:1" // a port that was let go could be another test's by now
	hostile(t, "H27", func(t *testing.T) {
		r, _ := call(t, client(t), bearer(), Input{URL: dead, Method: "POST"})
		if r.Outcome != NotSent || r.Reason != "dial_failed" || !strings.Contains(r.Detail, "refused") || r.Sent != 0 {
			t.Errorf("refused connection: %+v", r)
		}
		// A server that is no TLS server, one that hangs up, one with a foreign certificate.
		plain := serveRaw(t, func(_ *rawServer, _ int, c net.Conn) {
			bufio.NewReader(c).ReadByte()
			c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		})
		mute := serveRaw(t, func(*rawServer, int, net.Conn) {})
		foreign, ca := tlsServer(t, nil)
		for _, u := range []string{strings.Replace(plain.url, "http:", "https:", 1), strings.Replace(mute.url, "http:", "https:", 1), foreign} {
			r, _ := call(t, client(t), bearer(), Input{URL: u, Method: "POST"})
			if r.Outcome != NotSent || r.Reason != "dial_failed" || r.Sent != 0 || !strings.Contains(r.Detail, "tls") {
				t.Errorf("%s: %+v", u, r)
			}
		}
		s := bearer()
		s.CA = ca
		c := NewClient(ClientOptions{Resolver: resolving("127.0.0.1")})
		defer c.Close()
		r, _ = call(t, c, s, Input{URL: "https://other.name" + foreign[strings.LastIndex(foreign, ":"):]})
		if r.Outcome != NotSent || !strings.Contains(r.Detail, "another name") {
			t.Errorf("certificate for another name: %+v", r)
		}
	})
	c := NewClient(ClientOptions{Resolver: resolving()})
	defer c.Close()
	if r, _ := call(t, c, bearer(), Input{URL: "https://nowhere.example/"}); r.Outcome != NotSent || r.Reason != "dial_failed" || r.Detail != "host name not resolved" {
		t.Errorf("unknown name: %+v", r)
	}
	// The second address serves when the first refuses the connection.
	s := serveRaw(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	c2 := NewClient(ClientOptions{Resolver: resolving("127.0.0.9 127.0.0.1")})
	defer c2.Close()
	if r, body := call(t, c2, bearer(), Input{URL: "http://two.example" + s.url[strings.LastIndex(s.url, ":"):]}); r.Outcome != Confirmed || body != "ok" {
		t.Errorf("second address: %+v", r)
	}
}
