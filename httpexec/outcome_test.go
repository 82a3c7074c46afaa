package httpexec

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func TestOutcomeWords(t *testing.T) {
	for o, word := range map[Outcome]string{SentUnconfirmed: "sent_unconfirmed", Denied: "denied", NotSent: "not_sent", Confirmed: "confirmed",
		RedirectNotFollowed: "redirect_not_followed", FailedRemote: "failed_remote", Accepted: "accepted", 99: "sent_unconfirmed"} {
		if o.String() != word {
			t.Errorf("%d is %s", o, o)
		}
	}
	if (Result{}).Outcome != SentUnconfirmed {
		t.Error("the zero result claims to know something")
	}
}

func TestProxyIgnored(t *testing.T) {
	hostile(t, "H09", func(t *testing.T) {
		proxy := serveRaw(t, answering("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"))
		for _, v := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
			t.Setenv(v, proxy.url)
		}
		s := serveRaw(t, answering(okAnswer))
		if r, _ := call(t, client(t), bearer(), Input{URL: s.url}); r.Code != 200 {
			t.Errorf("%+v", r)
		}
		if n, _ := proxy.seen(); n != 0 {
			t.Errorf("proxy saw %d connections", n)
		}
	})
}

func TestRedirects(t *testing.T) {
	second := serveRaw(t, answering(okAnswer))
	redirect := func(t *testing.T, method string, code int, to string) Result {
		s := serveRaw(t, answering(fmt.Sprintf("HTTP/1.1 %d Moved\r\nLocation: %s\r\nContent-Length: 2\r\n\r\nhm", code, to)))
		r, body := call(t, client(t), bearer(), Input{URL: s.url, Method: method})
		if r.Outcome != RedirectNotFollowed || r.Code != code || body != "hm" || !r.Complete || r.Reason != "" {
			t.Errorf("%d: %+v", code, r)
		}
		if n, _ := second.seen(); n != 0 {
			t.Errorf("the second server saw %d connections", n)
		}
		if n, _ := s.seen(); n != 1 {
			t.Errorf("the first server saw %d connections", n)
		}
		return r
	}
	hostile(t, "H10", func(t *testing.T) {
		for _, code := range []int{301, 302, 303, 307, 308, 300} {
			if r := redirect(t, "GET", code, second.url+"/x"); r.Headers["Location"] != second.url+"/x" {
				t.Errorf("location %q", r.Headers["Location"])
			}
		}
	})
	hostile(t, "H12", func(t *testing.T) { redirect(t, "POST", 307, second.url) })
	hostile(t, "H11", func(t *testing.T) {
		u, ca := tlsServer(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, second.url, http.StatusFound) }))
		s := bearer()
		s.CA = ca
		r, _ := call(t, client(t), s, Input{URL: u})
		if n, _ := second.seen(); r.Outcome != RedirectNotFollowed || n != 0 {
			t.Errorf("%+v, %d connections in clear", r, n)
		}
	})
	s := serveRaw(t, answering("HTTP/1.1 304 Not Modified\r\n\r\n"))
	if r, _ := call(t, client(t), bearer(), Input{URL: s.url}); r.Outcome != Confirmed || !r.Complete {
		t.Errorf("304: %+v", r)
	}
}

// H25, H26: a POST on a reused connection whose server hangs up is sent once.
func TestNeverSentTwice(t *testing.T) {
	lost := func(t *testing.T, s Spec, method string) {
		srv := serveRaw(t, func(s *rawServer, n int, c net.Conn) {
			br := bufio.NewReader(c)
			if s.read(br) == nil && n == 0 {
				c.Write([]byte(okAnswer))
				s.read(br)
			}
		})
		c := client(t)
		if r, _ := call(t, c, s, Input{URL: srv.url}); r.Outcome != Confirmed {
			t.Fatalf("first: %+v", r)
		}
		r, _ := call(t, c, s, Input{URL: srv.url, Method: method, Body: []byte("deed=1")})
		if r.Outcome != SentUnconfirmed || r.Reason != "sent_unconfirmed" || r.Sent == 0 {
			t.Errorf("second: %+v", r)
		}
		conns, reqs := srv.seen()
		if conns != 1 || len(reqs) != 2 {
			t.Errorf("%d connections, %d requests", conns, len(reqs))
		}
		if s.IdempotencyHeader != "" && !strings.Contains(reqs[1], "\r\nIdempotency-Key: idem-1\r\n") {
			t.Errorf("no key in %q", reqs[1])
		}
	}
	hostile(t, "H25", func(t *testing.T) {
		for range 30 {
			lost(t, bearer(), "POST")
		}
		lost(t, bearer(), "GET")
	})
	hostile(t, "H26", func(t *testing.T) {
		s := bearer()
		s.IdempotencyHeader = "Idempotency-Key"
		for range 30 {
			lost(t, s, "POST")
		}
	})
}

// A ledger over many calls against a server that hangs up at random places: never more
// requests than calls, and each call that claims not to have been sent is in none.
func TestDoubleSendLedger(t *testing.T) {
	var turn atomic.Int64
	srv := serveRaw(t, func(s *rawServer, _ int, c net.Conn) {
		br := bufio.NewReader(c)
		for {
			switch k := turn.Add(1); k % 5 {
			case 0: // before reading
				return
			case 1: // after reading
				s.read(br)
				return
			case 2: // in the header
				s.read(br)
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-")
				return
			case 3: // in the body
				s.read(br)
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
				return
			default:
				if s.read(br) != nil {
					return
				}
				io.WriteString(c, okAnswer)
			}
		}
	})
	c := client(t)
	outcomes := map[string]Outcome{}
	for i := range 200 {
		id := fmt.Sprintf("deed-%03d.", i)
		r, _ := call(t, c, bearer(), Input{URL: srv.url + "/" + id, Method: []string{"POST", "GET", "DELETE"}[i%3], Body: []byte("x")})
		outcomes[id] = r.Outcome
		if r.Outcome == NotSent && r.Sent != 0 {
			t.Errorf("%s: not_sent with %d bytes sent", id, r.Sent)
		}
	}
	_, reqs := srv.seen()
	kinds := map[Outcome]int{}
	for id, o := range outcomes {
		n := 0
		for _, q := range reqs {
			if strings.Contains(q, id) {
				n++
			}
		}
		if n > 1 || o == Confirmed && n != 1 || o == NotSent && n != 0 {
			t.Errorf("%s: %s, the server saw it %d times", id, o, n)
		}
		kinds[o]++
	}
	if kinds[Confirmed] == 0 || kinds[SentUnconfirmed] == 0 {
		t.Errorf("outcomes %v: the server did not misbehave as meant", kinds)
	}
}

func TestBrokenAnswers(t *testing.T) {
	hostile(t, "H28", func(t *testing.T) {
		long := strings.Repeat("x", 500)
		for name, a := range map[string]string{
			"length":  "HTTP/1.1 201 Created\r\nContent-Length: 9999\r\n\r\n" + long,
			"chunked": "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n1f4\r\n" + long + "\r\n5\r\nab",
			"garbage": "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n1f4\r\n" + long + "\r\nzz\r\n",
		} {
			s := serveRaw(t, answering(a))
			r, body := call(t, client(t), bearer(), Input{URL: s.url, Method: "POST"})
			if r.Outcome != Confirmed || r.Code != 201 || r.Complete || r.Truncated || body == "" || len(body) >= 500 || r.Reason != "" {
				t.Errorf("%s: %+v, %d bytes shown", name, r, len(body))
			}
		}
	})
	hostile(t, "H37", func(t *testing.T) {
		s := serveRaw(t, func(s *rawServer, _ int, c net.Conn) {
			br := bufio.NewReader(c)
			s.read(br)
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
			if _, err := br.ReadByte(); err == nil {
				t.Error("the connection is still used")
			}
		})
		r, _ := call(t, client(t), bearer(), Input{URL: s.url})
		if r.Outcome != FailedRemote || r.Reason != "failed_remote" || r.Code != 101 {
			t.Errorf("%+v", r)
		}
	})
	for name, c := range map[string]struct{ answer, detail string }{
		"nothing":       {"", "ended"},
		"half a line":   {"HTTP/1.1 20", "read as HTTP"},
		"no header end": {"HTTP/1.1 200 OK\r\nA: b\r\n", "ended"},
		"not http":      {"SSH-2.0-OpenSSH_9.9\r\n\r\n", "read as HTTP"},
		"bad header":    {"HTTP/1.1 200 OK\r\nA b\r\n\r\n", "read as HTTP"},
		"bad length":    {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok", "read as HTTP"},
		"huge header":   {"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", 64<<10) + "\r\n\r\n", "32 KiB"},
		"many headers":  {"HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 9000) + "\r\n", "32 KiB"},
		"only interim":  {strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 20), "interim"},
	} {
		s := serveRaw(t, answering(c.answer))
		r, body := call(t, client(t), bearer(), Input{URL: s.url})
		if r.Outcome != SentUnconfirmed || r.Reason != "sent_unconfirmed" || !strings.Contains(r.Detail, c.detail) || body != "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	s := serveRaw(t, answering("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"+okAnswer))
	if r, body := call(t, client(t), bearer(), Input{URL: s.url}); r.Outcome != Confirmed || body != "ok" || len(r.Headers) != 1 {
		t.Errorf("interim answers first: %+v", r)
	}
	s = serveRaw(t, answering("HTTP/1.0 200 OK\r\n\r\nuntil the end"))
	if r, body := call(t, client(t), bearer(), Input{URL: s.url}); !r.Complete || body != "until the end" {
		t.Errorf("body without a length: %+v", r)
	}
	s = serveRaw(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 999\r\nContent-Encoding: gzip\r\n\r\n"))
	if r, _ := call(t, client(t), bearer(), Input{URL: s.url, Method: "HEAD"}); !r.Complete || r.Withheld || r.Headers["Content-Length"] != "999" {
		t.Errorf("HEAD: %+v", r)
	}
}

func TestDeadlineAndCancel(t *testing.T) {
	hold := func(after string) *rawServer {
		return serveRaw(t, func(s *rawServer, _ int, c net.Conn) {
			br := bufio.NewReader(c)
			s.read(br)
			io.WriteString(c, after)
			br.ReadByte() // until the client hangs up
		})
	}
	hostile(t, "H35", func(t *testing.T) {
		s := serveRaw(t, func(s *rawServer, _ int, c net.Conn) {
			s.read(bufio.NewReader(c))
			for _, b := range []byte("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 1000)) {
				time.Sleep(20 * time.Millisecond) // the drip itself
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
			}
		})
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		r, _ := callCtx(t, ctx, ctx, client(t), bearer(), Input{URL: s.url})
		if r.Outcome != SentUnconfirmed || !strings.Contains(r.Detail, "deadline") || ctx.Err() == nil {
			t.Errorf("%+v", r)
		}
	})
	hostile(t, "H39", func(t *testing.T) {
		s := hold("HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + strings.Repeat("x", 2000))
		ctx, cancel := context.WithCancel(context.Background())
		q := parse(t, Input{URL: s.url})
		w := &hook{f: cancel}
		r, err := client(t).Do(ctx, context.Background(), q, match(t, rules(t, bearer("GET "+s.url+"/**")), q), Injection{Secret: []byte(secret)}, w)
		if err != nil || r.Outcome != Confirmed || r.Complete {
			t.Errorf("%+v, %v", r, err)
		}
	})
	s := hold("")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for {
			if _, reqs := s.seen(); len(reqs) > 0 {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	r, _ := callCtx(t, ctx, context.Background(), client(t), bearer(), Input{URL: s.url, Method: "POST"})
	if r.Outcome != SentUnconfirmed || !strings.Contains(r.Detail, "cancelled") {
		t.Errorf("cancelled while waiting: %+v", r)
	}
	done, stop := context.WithCancel(context.Background())
	stop()
	past, stop2 := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer stop2()
	for _, c := range []struct {
		ctx, dial context.Context
		reason    string
	}{{done, context.Background(), "not_sent"}, {context.Background(), done, "not_sent"}, {past, context.Background(), "deadline"}, {context.Background(), past, "deadline"}} {
		s := serveRaw(t, answering(okAnswer))
		r, _ := callCtx(t, c.ctx, c.dial, client(t), bearer(), Input{URL: s.url, Method: "POST"})
		if n, _ := s.seen(); r.Outcome != NotSent || r.Reason != c.reason || n != 0 {
			t.Errorf("ended before it began: %+v, %d connections", r, n)
		}
	}
}

type hook struct{ f func() }

func (h *hook) Write(p []byte) (int, error) { h.f(); return len(p), nil }

// While connecting, the end of dial is not_sent; once a byte has left it changes nothing.
func TestDialContext(t *testing.T) {
	stuck := serveRaw(t, func(_ *rawServer, _ int, c net.Conn) { io.Copy(io.Discard, c) }) // never answers the TLS hello
	dial, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	r, _ := callCtx(t, context.Background(), dial, client(t), bearer(), Input{URL: strings.Replace(stuck.url, "http:", "https:", 1), Method: "POST"})
	if r.Outcome != NotSent || r.Reason != "deadline" || r.Sent != 0 {
		t.Errorf("dial's deadline in the handshake: %+v", r)
	}
	dial, cancel = context.WithCancel(context.Background())
	s := serveRaw(t, func(s *rawServer, _ int, c net.Conn) {
		s.read(bufio.NewReader(c))
		cancel()
		io.WriteString(c, okAnswer)
	})
	if r, body := callCtx(t, context.Background(), dial, client(t), bearer(), Input{URL: s.url, Method: "POST"}); r.Outcome != Confirmed || body != "ok" {
		t.Errorf("dial ended after the first byte: %+v", r)
	}
}

// An answer that came before anything was sent is none to this call.
func TestHostSpeaksFirst(t *testing.T) {
	told := make(chan struct{})
	s := serveRaw(t, func(_ *rawServer, _ int, c net.Conn) {
		io.WriteString(c, okAnswer)
		close(told)
		io.Copy(io.Discard, c)
	})
	c := client(t)
	q := parse(t, Input{URL: s.url, Method: "POST", Body: make([]byte, bigBody)})
	m := match(t, rules(t, bearer("POST "+s.url+"/**")), q)
	cn, f := c.connect(context.Background(), context.Background(), q.origin, m.rules, nil)
	if f != nil {
		t.Fatal(f)
	}
	defer cn.close()
	req, set, err := c.wireRequest(q, m.rules.spec, Injection{Secret: []byte(secret)})
	if err != nil {
		t.Fatal(err)
	}
	<-told
	dial, cancel := context.WithCancel(context.Background())
	cancel()
	x := exchange{conn: cn, req: req, set: set, limit: 10, body: io.Discard}
	if r, reuse, err := x.run(context.Background(), dial); err != nil || reuse || r.Outcome != NotSent || r.Code != 0 {
		t.Errorf("%+v, reuse %v, %v", r, reuse, err)
	}
}

// The gate is asked at the write itself: a call let in before it closed, but not yet
// writing, writes nothing.
func TestGateAtTheWrite(t *testing.T) {
	for _, which := range []string{"ctx", "dial"} {
		s := serveRaw(t, answering(okAnswer))
		ctx, dial := context.Background(), context.Background()
		c := client(t)
		q := parse(t, Input{URL: s.url, Method: "POST", Body: []byte("x")})
		m := match(t, rules(t, bearer("POST "+s.url+"/**")), q)
		cn, f := c.connect(ctx, dial, q.origin, m.rules, nil)
		if f != nil {
			t.Fatal(f)
		}
		req, set, err := c.wireRequest(q, m.rules.spec, Injection{Secret: []byte(secret)})
		if err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if which == "ctx" {
			ctx = ended
		} else {
			dial = ended
		}
		x := exchange{conn: cn, req: req, set: set, limit: 10, body: io.Discard}
		r, reuse, err := x.run(ctx, dial)
		if err != nil || reuse || r.Outcome != NotSent || r.Sent != 0 || r.Reason != "not_sent" {
			t.Errorf("%s: %+v, reuse %v, %v", which, r, reuse, err)
		}
		cn.close()
		if _, reqs := s.seen(); len(reqs) != 0 {
			t.Errorf("%s: the server saw %q", which, reqs)
		}
	}
}

// A long body is cut off at the next piece, and what had left is counted.
func TestCancelWhileWriting(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		ctx, cancel := context.WithCancel(context.Background())
		var u, ca string
		if scheme == "http" {
			u = serveRaw(t, func(_ *rawServer, _ int, c net.Conn) {
				io.ReadFull(c, make([]byte, 100<<10))
				cancel()
				io.Copy(io.Discard, c)
			}).url
		} else {
			u, ca = tlsServer(t, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
				io.ReadFull(q.Body, make([]byte, 100<<10))
				cancel()
				io.Copy(io.Discard, q.Body)
			}))
		}
		s := bearer()
		s.CA = ca
		r, _ := callCtx(t, ctx, context.Background(), client(t), s, Input{URL: u, Method: "POST", Body: make([]byte, maxBody)})
		if r.Outcome != SentUnconfirmed || r.Sent < 100<<10 || r.Sent >= maxBody || !strings.Contains(r.Detail, "cancelled") {
			t.Errorf("%s: %+v", scheme, r)
		}
	}
}

// Servers that answer before, or while, they read a long body.
func TestLongBodies(t *testing.T) {
	big := []byte(strings.Repeat("0123456789abcdef", 256<<10)) // 4 MiB
	early := serveRaw(t, func(s *rawServer, _ int, c net.Conn) {
		io.ReadFull(c, make([]byte, 1000))
		io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno!")
		c.(*net.TCPConn).CloseWrite()
		io.CopyN(io.Discard, c, 64<<10)
	})
	if r, body := call(t, client(t), bearer(), Input{URL: early.url, Method: "POST", Body: big}); r.Outcome != Confirmed || r.Code != 413 || body != "no!" {
		t.Errorf("early refusal: %+v", r)
	}
	echo := serveRaw(t, func(s *rawServer, _ int, c net.Conn) {
		br := bufio.NewReader(c)
		for {
			if line, err := br.ReadString('\n'); err != nil || line == "\r\n" {
				break
			}
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(big))
		io.CopyN(c, br, int64(len(big)))
	})
	c := NewClient(ClientOptions{BodyLimit: int64(len(big))})
	defer c.Close()
	if r, body := call(t, c, bearer(), Input{URL: echo.url, Method: "POST", Body: big}); !r.Complete || body != string(big) {
		t.Errorf("echo while reading: %+v, %d bytes", r, len(body))
	}
	// A hang-up in the middle without an answer.
	drop := serveRaw(t, func(s *rawServer, _ int, c net.Conn) { io.ReadFull(c, make([]byte, 200<<10)) })
	if r, _ := call(t, client(t), bearer(), Input{URL: drop.url, Method: "POST", Body: big}); r.Outcome != SentUnconfirmed || r.Sent == 0 {
		t.Errorf("dropped: %+v", r)
	}
}
