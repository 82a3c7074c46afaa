package httpexec

import (
	"bufio"
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "s3cr3t/Zk+value=42"

// hostile runs a case of testdata/http.tsv under its id.
func hostile(t *testing.T, id string, f func(t *testing.T)) {
	t.Helper()
	b, err := os.ReadFile("testdata/http.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, id+"\t") {
			t.Run(id, func(t *testing.T) {
				t.Log(strings.TrimSpace(line))
				f(t)
			})
			return
		}
	}
	t.Fatalf("no case %s in testdata/http.tsv", id)
}

func rules(t testing.TB, s Spec) Rules {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseRules(b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// bearer is a spec for servers on loopback.
func bearer(allow ...string) Spec {
	return Spec{Kind: "bearer", Allow: allow, AllowNetwork: []string{"127.0.0.0/8"}, AllowHTTP: true}
}

func parse(t testing.TB, in Input) Request {
	t.Helper()
	q, err := ParseRequest(in)
	if err != nil {
		t.Fatalf("%+v: %v", in, err)
	}
	return q
}

func match(t testing.TB, r Rules, q Request) Match {
	t.Helper()
	m, err := r.Match(q)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// wantError checks a refusal's code and a word of its reason.
func wantError(t *testing.T, err error, code, word string) {
	t.Helper()
	var re *RequestError
	if !errors.As(err, &re) || re.Code != code || !strings.Contains(re.Reason, word) {
		t.Errorf("got %v, want %s with %q", err, code, word)
	}
}

// call sends in under spec, whose one rule is widened to the URL's origin.
func call(t testing.TB, c *Client, s Spec, in Input) (Result, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	return callCtx(t, ctx, ctx, c, s, in)
}

func callCtx(t testing.TB, ctx, dial context.Context, c *Client, s Spec, in Input) (Result, string) {
	t.Helper()
	q := parse(t, in)
	if len(s.Allow) == 0 {
		s.Allow = []string{q.Method() + " " + q.Origin() + "/**"}
	}
	m := match(t, rules(t, s), q)
	var body bytes.Buffer
	r, err := c.Do(ctx, dial, q, m, Injection{Credential: "cred", Version: 1, Secret: []byte(secret), IdempotencyKey: "idem-1"}, &body)
	if err != nil {
		t.Fatal(err)
	}
	return r, body.String()
}

func client(t testing.TB) *Client {
	c := NewClient(ClientOptions{UserAgent: "test"})
	t.Cleanup(c.Close)
	return c
}

// quiet is a log for servers whose refused handshakes are meant.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// tlsServer serves h and returns its URL and CA.
func tlsServer(t testing.TB, h http.Handler) (url, ca string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// rawServer is a TCP server that misbehaves as told. Each connection is given to
// serve with its number; the connection is closed when serve returns.
type rawServer struct {
	url string

	mu       sync.Mutex
	conns    int
	requests []string // as read, header and body
}

func serveRaw(t testing.TB, serve func(s *rawServer, n int, c net.Conn)) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{url: "http://" + l.Addr().String()}
	var wg sync.WaitGroup
	var open sync.Map
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Store(c, nil)
			s.mu.Lock()
			n := s.conns
			s.conns++
			s.mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				serve(s, n, c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		open.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		wg.Wait()
	})
	return s
}

// read takes one request off c and notes it.
func (s *rawServer) read(br *bufio.Reader) error {
	var b bytes.Buffer
	for {
		line, err := br.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			return err
		}
		if line == "\r\n" {
			break
		}
	}
	if _, n, ok := strings.Cut(b.String(), "Content-Length: "); ok {
		n, _, _ = strings.Cut(n, "\r\n")
		size := 0
		for _, d := range n {
			size = size*10 + int(d-'0')
		}
		body := make([]byte, size)
		for at := 0; at < size; {
			k, err := br.Read(body[at:])
			at += k
			if err != nil {
				return err
			}
		}
		b.Write(body)
	}
	s.mu.Lock()
	s.requests = append(s.requests, b.String())
	s.mu.Unlock()
	return nil
}

func (s *rawServer) seen() (conns int, requests []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns, append([]string(nil), s.requests...)
}

// last is the request read last, and how many were.
func (s *rawServer) last() (request string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[len(s.requests)-1], len(s.requests)
}

// long is how often a loop runs: few times by default, in full with SALLYPORT_LONG=1.
func long(short, full int) int {
	if os.Getenv("SALLYPORT_LONG") == "1" {
		return full
	}
	return short
}

// answering reads one request per answer and writes the answer, then hangs up.
func answering(answers ...string) func(*rawServer, int, net.Conn) {
	return func(s *rawServer, _ int, c net.Conn) {
		br := bufio.NewReader(c)
		for _, a := range answers {
			if s.read(br) != nil {
				return
			}
			c.Write([]byte(a))
		}
	}
}

// fixed is a resolver that answers one list after the other, then the last again.
type fixed struct {
	mu    sync.Mutex
	lists [][]netip.Addr
	asked int
}

func resolving(lists ...string) *fixed {
	f := &fixed{}
	for _, l := range lists {
		var as []netip.Addr
		for a := range strings.FieldsSeq(l) {
			as = append(as, netip.MustParseAddr(a))
		}
		f.lists = append(f.lists, as)
	}
	return f
}

func (f *fixed) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.lists) == 0 {
		return nil, errors.New("no such host")
	}
	l := f.lists[min(f.asked, len(f.lists)-1)]
	f.asked++
	return l, nil
}
