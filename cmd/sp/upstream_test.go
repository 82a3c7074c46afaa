package main_test

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"

	"github.com/mccutchen/go-httpbin/v2/httpbin"
	"github.com/rogpeppe/go-internal/testscript"
)

// upstream is go-httpbin over TLS with a ledger of what arrived, /stall, which never answers, and /long, a body of 2 MiB.
type upstream struct {
	srv  *httptest.Server
	halt chan struct{}
	mu   sync.Mutex
	seen []arrival
}

type arrival struct{ method, path, authorization string }

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	u.seen = append(u.seen, arrival{r.Method, r.URL.Path, r.Header.Get("Authorization")})
	u.mu.Unlock()
	if r.URL.Path == "/stall" {
		select {
		case <-r.Context().Done():
		case <-u.halt:
		}
		return
	}
	if r.URL.Path == "/long" {
		w.Write(bytes.Repeat([]byte("0123456789abcdef"), 1<<17)) // 2 MiB
		return
	}
	if r.URL.Path == "/user" { // as GitHub's: who the token belongs to
		if r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		io.WriteString(w, `{"login":"octocat","token":"`+r.Header.Get("Authorization")+`"}`)
		return
	}
	httpbin.New().ServeHTTP(w, r)
}

func (u *upstream) saw(path string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.ContainsFunc(u.seen, func(a arrival) bool { return a.path == path })
}

func cmdUpstream(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: upstream NAME")
	}
	u := &upstream{halt: make(chan struct{})}
	u.srv = httptest.NewTLSServer(u)
	ts.Defer(func() { close(u.halt); u.srv.Close() })
	p := partsOf(ts)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.up == nil {
		p.up = map[string]*upstream{}
	}
	p.up[args[0]] = u
	ts.Setenv(args[0], u.srv.URL)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: u.srv.Certificate().Raw})
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".pem"), cert, 0o600))
}

func (p *parts) upstream(ts *testscript.TestScript, name string) *upstream {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.up[name]
	if u == nil {
		ts.Fatalf("no upstream %s", name)
	}
	return u
}

func cmdArrived(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: arrived NAME PATH")
	}
	u := partsOf(ts).upstream(ts, args[0])
	if neg {
		if u.saw(args[1]) {
			ts.Fatalf("%s has arrived", args[1])
		}
		return
	}
	until(ts, args[1]+" at the upstream", func() bool { return u.saw(args[1]) })
}

func cmdLedger(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ledger NAME")
	}
	u := partsOf(ts).upstream(ts, args[0])
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, a := range u.seen {
		fmt.Fprintln(ts.Stdout(), a.method, a.path, a.authorization)
	}
}
