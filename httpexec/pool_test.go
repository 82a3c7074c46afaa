package httpexec

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// alwaysOK answers every request on every connection.
func alwaysOK(s *rawServer, _ int, c net.Conn) {
	br := bufio.NewReader(c)
	for s.read(br) == nil {
		io.WriteString(c, okAnswer)
	}
}

func (c *Client) idleConns() (n int) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	for _, l := range c.p.idle {
		n += len(l)
	}
	if n != c.p.count {
		return -1
	}
	return n
}

// age makes the idle connections look as if they had been idle for d.
func (c *Client) age(d time.Duration) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	for _, l := range c.p.idle {
		for _, cn := range l {
			cn.since = cn.since.Add(-d)
		}
	}
}

func TestReuse(t *testing.T) {
	hostile(t, "H44", func(t *testing.T) {
		srv := serveRaw(t, alwaysOK)
		c := client(t)
		began, idle := time.Now(), atomic.Int64{}
		c.p.now = func() time.Time { return began.Add(time.Duration(idle.Load())) }
		get, post := Input{URL: srv.url}, Input{URL: srv.url, Method: "POST"}
		for i, step := range []struct {
			in    Input
			idle  time.Duration
			conns int
		}{
			{get, 0, 1},
			{post, 0, 1},
			{get, 10 * time.Second, 1},
			{post, 10 * time.Second, 2},
			{post, 900 * time.Millisecond, 2},
			{Input{URL: srv.url, Method: "DELETE"}, 2 * time.Second, 3},
		} {
			idle.Add(int64(step.idle)) // and nothing that the machine takes
			if r, body := call(t, c, bearer(), step.in); r.Outcome != Confirmed || body != "ok" {
				t.Fatalf("step %d: %+v", i, r)
			}
			if n, _ := srv.seen(); n != step.conns {
				t.Errorf("step %d: %d connections, want %d", i, n, step.conns)
			}
			if c.idleConns() != step.conns {
				t.Errorf("step %d: %d idle; a write must leave to reads what is too old for it", i, c.idleConns())
			}
		}
	})
}

// A connection that the server has closed, or spoken on, is found out before it is used.
func TestPeek(t *testing.T) {
	for name, more := range map[string]string{"closed": "", "spoke": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"} {
		for _, secure := range []bool{false, true} {
			told := make(chan struct{}, 8)
			spec, u := bearer(), ""
			serve := func(s *rawServer, br *bufio.Reader, c net.Conn) {
				if s.read(br) == nil {
					io.WriteString(c, okAnswer)
					io.WriteString(c, more)
				}
			}
			srv := serveRaw(t, func(s *rawServer, n int, c net.Conn) {
				serve(s, bufio.NewReader(c), c)
				if more == "" {
					c.Close()
				}
				told <- struct{}{}
				io.Copy(io.Discard, c)
			})
			u = srv.url
			if secure {
				u, spec.CA = tlsServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					c, rw, err := w.(http.Hijacker).Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					// One record, so that what is too much comes with the answer.
					io.WriteString(rw, okAnswer+more)
					rw.Flush()
					if more == "" {
						c.Close()
					}
					told <- struct{}{}
					io.Copy(io.Discard, c)
				}))
			}
			c := client(t)
			for range 3 {
				r, body := call(t, c, spec, Input{URL: u, Method: "POST"})
				if r.Outcome != Confirmed || body != "ok" {
					t.Fatalf("%s, tls %v: %+v %q", name, secure, r, body)
				}
				<-told
				waitFor(t, func() bool {
					c.p.mu.Lock()
					defer c.p.mu.Unlock()
					for _, l := range c.p.idle {
						return !l[0].alive()
					}
					return true
				})
			}
			c.Close()
		}
	}
}

// waitFor bounds a wait for what another thread of the kernel has to deliver.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("did not happen within a minute")
		}
	}
}

func TestPoolKeys(t *testing.T) {
	srv := serveRaw(t, alwaysOK)
	c := client(t)
	q := parse(t, Input{URL: srv.url})
	m := match(t, rules(t, bearer("GET "+srv.url+"/**")), q)
	as := func(credential string, version uint64) {
		t.Helper()
		if r, err := c.Do(context.Background(), context.Background(), q, m, Injection{Credential: credential, Version: version, Secret: []byte(secret)}, io.Discard); err != nil || r.Outcome != Confirmed {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	as("a", 1)
	as("a", 1)
	as("b", 1)
	as("a", 2)
	if n, _ := srv.seen(); n != 3 {
		t.Errorf("%d connections for three keys", n)
	}
	c.Drop(func(k PoolKey) bool { return k.Credential == "a" && k.Origin == srv.url })
	if n := c.idleConns(); n != 1 {
		t.Errorf("%d idle after a drop of two", n)
	}
	as("b", 1)
	as("a", 1)
	if n, _ := srv.seen(); n != 4 {
		t.Errorf("%d connections, want a new one for a, none for b", n)
	}
	c.Close()
	if n := c.idleConns(); n != 0 {
		t.Errorf("%d idle after close", n)
	}
	as("a", 1)
	if n := c.idleConns(); n != 0 {
		t.Errorf("%d idle after a call on a closed client", n)
	}
}

// A connection in use when its key is dropped doesn't come back to the pool.
func TestDropInUse(t *testing.T) {
	c := client(t)
	srv := serveRaw(t, func(s *rawServer, _ int, conn net.Conn) {
		br := bufio.NewReader(conn)
		for s.read(br) == nil {
			c.Drop(func(PoolKey) bool { return true })
			io.WriteString(conn, okAnswer)
		}
	})
	if r, _ := call(t, c, bearer(), Input{URL: srv.url}); r.Outcome != Confirmed {
		t.Errorf("%+v", r)
	}
	if n := c.idleConns(); n != 0 {
		t.Errorf("%d idle", n)
	}
}

func TestExpire(t *testing.T) {
	srv := serveRaw(t, alwaysOK)
	c := client(t)
	call(t, c, bearer(), Input{URL: srv.url})
	var cn *conn
	for _, l := range c.p.idle {
		cn = l[0]
	}
	c.p.expire(cn)
	if c.idleConns() != 1 {
		t.Error("a young connection expired")
	}
	c.age(idleReads)
	c.p.expire(cn)
	if c.idleConns() != 0 {
		t.Error("an old connection stayed")
	}
	c.p.expire(cn) // its timer may fire once more
	if _, err := cn.tcp.Write([]byte("x")); err == nil {
		t.Error("the connection is still open")
	}
}

// Answers that end a connection aren't followed by another request on it.
func TestNoReuse(t *testing.T) {
	for _, a := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Encoding: gzip\r\n\r\nok",
	} {
		srv := serveRaw(t, func(s *rawServer, _ int, c net.Conn) {
			if s.read(bufio.NewReader(c)) == nil {
				io.WriteString(c, a)
			}
			io.Copy(io.Discard, c)
		})
		c := client(t)
		if r, _ := call(t, c, bearer(), Input{URL: srv.url}); r.Outcome != Confirmed || c.idleConns() != 0 {
			t.Errorf("%q: %+v, %d idle", a, r, c.idleConns())
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	srv := serveRaw(t, alwaysOK)
	c := client(t)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 25 {
				if r, body := call(t, c, bearer(), Input{URL: srv.url, Method: "POST", Body: bytes.Repeat([]byte("x"), 10)}); r.Outcome != Confirmed || body != "ok" {
					t.Errorf("%+v", r)
				}
			}
		})
	}
	wg.Wait()
	conns, reqs := srv.seen()
	if len(reqs) != 400 || conns > 16+400/4 || c.idleConns() < 1 {
		t.Errorf("%d requests on %d connections, %d idle", len(reqs), conns, c.idleConns())
	}
	for _, q := range reqs {
		if strings.Count(q, "Authorization: Bearer "+secret) != 1 {
			t.Fatalf("%q", q)
		}
	}
}
