package console_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/gateway"
	"sallyport/gateway/api"
	"sallyport/gateway/client"
	"sallyport/gateway/home"
	"sallyport/gateway/peer"
	"sallyport/sshexec/sshtest"
)

const passphrase = "correct horse battery"

// stand is a gateway with a console, an upstream, and this process as operator first and as agent then: from its first
// call on it is an agent's run, whom the operators' door refuses. The browser goes on being the operator.
type stand struct {
	t       testing.TB
	dir     string
	home    home.Home
	g       *gateway.Gateway
	created api.Created
	up      *httptest.Server
	mu      sync.Mutex
	arrived []string
	stop    func()
}

func proof() *api.Proof { return &api.Proof{Kind: "passphrase", Value: passphrase} }

// newStand serves a gateway in a new folder, with a vault and one credential, `up`, for its upstream.
func newStand(t testing.TB) *stand {
	t.Helper()
	s := &stand{t: t, dir: t.TempDir()}
	if err := os.Chmod(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.up = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.up.Close)
	var err error
	if s.home, err = home.Find(func(k string) string {
		if k == home.EnvHome {
			return s.dir
		}
		return ""
	}); err != nil {
		t.Fatal(err)
	}
	if s.g, err = gateway.New(t.Context(), gateway.Config{Home: s.home, Version: "test", WorkFactor: 10, Console: gateway.ConsoleRequired,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))}); err != nil {
		t.Fatal(err)
	}
	agents, err := peer.Listen(s.home.AgentSocket())
	if err != nil {
		t.Fatal(err)
	}
	operators, addr, err := s.operators()
	if err == nil {
		err = s.home.PublishOperator(addr)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.g.Serve(ctx, agents, operators) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(s.stop)
	s.op(api.PathInit, proof(), nil, nil, &s.created)
	v := client.Salt([]byte("tok-5f2b9c71e04d4a6b"))
	s.op(api.PathCredentialAdd, proof(), api.CredentialArgs{Name: "up", Kind: "bearer", Account: "staging robot", ValueLength: v.Len(), ValueDigest: v.Digest(),
		Rules: api.HTTPRules{Allow: []string{"GET,POST,DELETE " + s.up.URL + "/**"}, AllowHTTP: true, AllowNetwork: []string{"127.0.0.0/8"}}}, v, nil)
	return s
}

func (s *stand) operators() (net.Listener, string, error) {
	l, addr, err := peer.ListenAbstract()
	if err != nil {
		addr = filepath.Join(s.dir, "operator.sock")
		l, err = peer.Listen(addr)
	}
	return l, addr, err
}

// answer is the upstream: it keeps what arrived. Below /slow it lets the caller wait.
func (s *stand) answer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.arrived = append(s.arrived, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/slow") {
		<-r.Context().Done()
	}
	io.WriteString(w, `{"done":true}`)
}

// arrivals are the requests that reached the upstream.
func (s *stand) arrivals() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.arrived...)
}

// op puts one command to the operators' door; only before the first call.
func (s *stand) op(path string, p *api.Proof, args any, v *client.Value, out any) {
	s.t.Helper()
	c := client.Operator(s.home)
	defer c.Close()
	if err := c.Do(s.t.Context(), path, p, args, v, out); err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
}

// addHost adds an SSH host, and the key that logs in there.
func (s *stand) addHost(name string) {
	s.t.Helper()
	key, public, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		s.t.Fatal(err)
	}
	h, err := sshtest.Start(s.t.Context(), sshtest.Options{User: "deploy", AuthorizedKey: public})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(h.Close)
	v := client.Salt(key)
	s.op(api.PathCredentialAdd, proof(), api.CredentialArgs{Name: "login", Kind: "ssh-key", ValueLength: v.Len(), ValueDigest: v.Digest()}, v, nil)
	s.op(api.PathTargetAdd, proof(), api.HostArgs{Name: name, Address: h.Addr(), User: "deploy", Credential: "login",
		HostKey: strings.Join(h.HostKeys(), "\n"), AllowNetwork: []string{"127.0.0.0/8"},
		AllowArgv: [][]string{{"systemctl", "status", "*"}, {"journalctl", "--unit", "*", "--no-pager", "--lines", "200"}}}, nil, nil)
}

// url is what `sp console` prints.
func (s *stand) url() string {
	s.t.Helper()
	var o api.ConsoleOpened
	s.op(api.PathConsoleOpen, nil, nil, nil, &o)
	return o.URL
}

// agent is a connection to the agents' door.
func (s *stand) agent() *client.Client {
	s.t.Helper()
	c := client.Agent(s.home)
	s.t.Cleanup(func() { c.Close() })
	return c
}

// call makes one HTTP call as the agent; its answer comes on the channel.
func (s *stand) call(c *client.Client, method, path string) chan answered {
	out := make(chan answered, 1)
	args, err := json.Marshal(api.HTTPArgs{URL: s.up.URL + path, Method: method})
	if err != nil {
		s.t.Fatal(err)
	}
	go func() {
		a, err := c.Act(context.Background(), api.ActionRequest{Tool: api.ToolHTTP, Args: args, Reason: "to close what was fixed"})
		out <- answered{a, err}
	}()
	return out
}

// answered is what an agent's call came to.
type answered struct {
	api.Action
	err error
}

// wait is the outcome or code of a call.
func (s *stand) wait(c chan answered) string {
	s.t.Helper()
	select {
	case a := <-c:
		if a.err != nil {
			var e *api.Error
			if asError(a.err, &e) {
				return e.Code
			}
			return a.err.Error()
		}
		if a.Error != nil {
			return a.Error.Code
		}
		return a.Outcome
	case <-time.After(2 * time.Minute):
		s.t.Fatal("the call got no answer")
		return ""
	}
}

// within waits until a thing is so.
func within(t testing.TB, what string, so func() bool) {
	t.Helper()
	end := time.After(2 * time.Minute)
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for !so() {
		select {
		case <-look.C:
		case <-end:
			t.Fatalf("never came: %s", what)
		}
	}
}
