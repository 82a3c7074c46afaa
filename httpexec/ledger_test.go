package httpexec

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// ledger is a server that notes each request as soon as its first line is there, and drops connections at random: at
// once, before or after it has read, in the middle of an answer, or between two requests.
type ledger struct {
	mu    sync.Mutex
	begun map[string]int // by path: request lines that arrived
	whole map[string]int // requests that arrived whole
}

func (l *ledger) note(m map[string]int, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m[path]++
}

func (l *ledger) serve(_ *rawServer, n int, c net.Conn) {
	r := rand.New(rand.NewPCG(uint64(n), 11))
	if r.IntN(20) == 0 {
		return
	}
	br := bufio.NewReader(c)
	for {
		if r.IntN(30) == 0 {
			time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond) // then a close that crosses the next request
			return
		}
		line, err := br.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Fields(line)
		if len(words) != 3 {
			return
		}
		path := words[1]
		l.note(l.begun, path)
		if r.IntN(15) == 0 {
			return
		}
		req, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(line), br)))
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		l.note(l.whole, path)
		answer := "HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n" + strings.Repeat("x", 400)
		switch r.IntN(12) {
		case 0:
			return // read and gone
		case 1:
			io.WriteString(c, answer[:r.IntN(len(answer))])
			return
		case 2:
			io.WriteString(c, strings.Replace(answer, "\r\n", "\r\nConnection: close\r\n", 1))
			return
		case 3:
			io.WriteString(c, answer)
			c.(*net.TCPConn).SetLinger(0)
			return
		}
		io.WriteString(c, answer)
		if br.Buffered() > 0 {
			return
		}
	}
}

// Ten thousand calls, reads and writes, with and without an idempotency key: none arrives twice, none that is told
// not_sent arrived, each that is told confirmed did.
func TestNoDoubleSend(t *testing.T) {
	l := &ledger{begun: map[string]int{}, whole: map[string]int{}}
	srv := serveRaw(t, l.serve)
	spec := bearer("GET,POST,PUT,DELETE " + srv.url + "/**")
	spec.IdempotencyHeader = "Idempotency-Key"
	rs, c := rules(t, spec), client(t)
	total := long(1000, 10000)
	outcomes := make([]Outcome, total)
	var wg sync.WaitGroup
	const lanes = 8
	for lane := range lanes {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(lane), 12))
			for i := lane; i < total; i += lanes {
				in := Input{URL: fmt.Sprintf("%s/call/%d", srv.url, i), Method: []string{"GET", "POST", "PUT", "DELETE"}[r.IntN(4)]}
				if in.Method == "POST" || in.Method == "PUT" {
					in.Body = bytes.Repeat([]byte("b"), []int{0, 10, 5000, 200_000}[r.IntN(4)])
				}
				q, err := ParseRequest(in)
				if err != nil {
					t.Error(err)
					return
				}
				m, err := rs.Match(q)
				if err != nil {
					t.Error(err)
					return
				}
				ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
				if r.IntN(25) == 0 { // and some are taken back in the middle
					time.AfterFunc(time.Duration(r.IntN(2000))*time.Microsecond, cancel)
				}
				inj := Injection{Credential: "cred", Version: 1, Secret: []byte(secret)}
				if r.IntN(2) == 0 {
					inj.IdempotencyKey = fmt.Sprint("key-", i)
				}
				res, err := c.Do(ctx, ctx, q, m, inj, io.Discard)
				cancel()
				if err != nil {
					t.Error(err)
					return
				}
				outcomes[i] = res.Outcome
			}
		})
	}
	wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	told := map[Outcome]int{}
	for i, o := range outcomes {
		path := fmt.Sprintf("/call/%d", i)
		told[o]++
		begun, whole := l.begun[path], l.whole[path]
		switch {
		case begun > 1 || whole > 1:
			t.Errorf("call %d (%s) arrived %d times", i, o, begun)
		case o == NotSent && begun > 0:
			t.Errorf("call %d is told not_sent and arrived", i)
		case o == Confirmed && begun != 1:
			t.Errorf("call %d is told confirmed and arrived %d times", i, begun)
		}
	}
	if told[Confirmed] < total/4 || told[SentUnconfirmed] < total/50 {
		t.Errorf("the server is too kind, or too rude: %v", told)
	}
	t.Log(told)
}
