package main_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/sshexec/sshtest"
)

// ledger is what the far side saw: the calls by their number, and how often each. It behaves as a call's name says:
//
//	answer   answers
//	stall    answers nothing for a while, then hangs up
//	cut      hangs up after reading
//	head     hangs up in the middle of the status line
//	body     hangs up in the middle of the body
//
// A service that hangs up before reading, and one that is not there, have ports of their own.
type ledger struct {
	mu   sync.Mutex
	seen map[int]int

	web         *httptest.Server
	deaf, empty string // addresses
	host        *sshtest.Host
	key         []byte
}

const stallTime = 50 * time.Millisecond

func newLedger(t *testing.T) *ledger {
	l := &ledger{seen: map[int]int{}}
	l.web = httptest.NewServer(http.HandlerFunc(l.serveHTTP))
	t.Cleanup(l.web.Close)

	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deaf.Close() })
	go func() {
		for {
			c, err := deaf.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	l.deaf = deaf.Addr().String()
	l.empty = "127.0.0.1:1" // a port that was let go could be another test's by now

	key, public, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	l.key = key
	l.host, err = sshtest.Start(t.Context(), sshtest.Options{User: "deploy", AuthorizedKey: public, Shell: l.serveSSH})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.host.Close)
	return l
}

func (l *ledger) note(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[n]++
}

func (l *ledger) serveHTTP(w http.ResponseWriter, q *http.Request) {
	n, how := numbered(q.URL.Path)
	l.note(n)
	io.Copy(io.Discard, q.Body)
	if how == "answer" {
		fmt.Fprintf(w, "done %d", n)
		return
	}
	if how == "stall" {
		time.Sleep(stallTime)
	}
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	switch how {
	case "head":
		io.WriteString(c, "HTTP/1.1 20")
	case "body":
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")
	}
}

func (l *ledger) serveSSH(ctx context.Context, e sshtest.Exec) sshtest.Exit {
	n, how := numbered(e.Line)
	if n < 0 { // the proof of the login shell
		return sshtest.Builtins(ctx, e)
	}
	l.note(n)
	switch how {
	case "answer":
		fmt.Fprintf(e.Stdout, "done %d\n", n)
		return sshtest.Exit{}
	case "body":
		io.WriteString(e.Stdout, "half of it")
	case "stall":
		time.Sleep(stallTime)
	}
	if how == "head" {
		return sshtest.Exit{None: true} // the channel is closed without a word
	}
	l.host.DropConns()
	return sshtest.Exit{}
}

// numbered finds a call's number and behaviour in a path (/c/17/cut) or a command ('ledger' '17' 'cut').
func numbered(s string) (n int, how string) {
	m := callName.FindStringSubmatch(strings.ReplaceAll(s, "'", ""))
	if m == nil {
		return -1, ""
	}
	n, _ = strconv.Atoi(m[1])
	return n, m[2]
}

var callName = regexp.MustCompile(`(?:/c/|ledger )(\d+)[/ ]([a-z]+)`)
