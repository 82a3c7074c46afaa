package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"sallyport/gateway/api"
	"sallyport/gateway/home"
)

// The test binary, run again, is sp (roleSP) or a daemon (roleSPD: what it does).
const (
	roleSP  = "SALLYPORT_TEST_SP"
	roleSPD = "SALLYPORT_TEST_SPD"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(roleSPD) != "" && len(os.Args) == 2 && os.Args[1] == "serve":
		os.Exit(daemon(os.Getenv(roleSPD)))
	case os.Getenv(roleSP) != "":
		os.Exit(asSP())
	}
	goleak.VerifyTestMain(m)
}

// now is the tests' time.
var now = time.Date(2031, 4, 5, 6, 7, 8, 0, time.UTC)

// world is one home with a gateway that answers what a test tells it to.
type world struct {
	t   *testing.T
	dir string // SALLYPORT_HOME
	env env
	fds map[int]string // what descriptors hold
	tty *os.File       // the controlling terminal; nil: none

	stdin *os.File // of a process on a terminal, where that is no terminal; nil: /dev/null

	mu     sync.Mutex
	asked  []asked
	setenv []string // of sp as a process, besides what it needs
}

// asked is one command as the operators' door got it.
type asked struct {
	path  string
	env   api.Envelope
	value []byte
}

// answers holds what each path answers: a document, an *api.Error, or a func of the request.
type answers map[string]any

func newWorld(t *testing.T) *world {
	t.Helper()
	base, err := os.MkdirTemp("", "sp") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	w := &world{t: t, dir: filepath.Join(base, "h"), fds: map[int]string{}}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.env = env{
		width:  func() int { return 0 },
		getenv: func(name string) string { return map[string]string{home.EnvHome: w.dir}[name] },
		tty: func() (*os.File, error) {
			if w.tty == nil {
				return nil, errors.New("no terminal")
			}
			return w.tty, nil
		},
		fd:   w.descriptor,
		spd:  func() (string, error) { return os.Executable() },
		self: ownPath,
		now:  func() time.Time { return now },
	}
	return w
}

func (w *world) descriptor(n int) (*os.File, error) {
	text, ok := w.fds[n]
	if !ok {
		return nil, usage("descriptor %d is not open", n)
	}
	r, p, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	go func() {
		io.WriteString(p, text)
		p.Close()
	}()
	return r, nil
}

func (w *world) home() home.Home {
	w.t.Helper()
	h, err := home.Find(w.env.getenv)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// sp runs one command.
func (w *world) sp(stdin string, args ...string) (out, errs string, exit int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var o, e bytes.Buffer
	v := w.env
	v.in, v.out, v.err = strings.NewReader(stdin), &o, &e
	exit = run(ctx, v, args)
	return o.String(), e.String(), exit
}

// want runs one command and checks its exit status.
func (w *world) want(exit int, stdin string, args ...string) (out, errs string) {
	w.t.Helper()
	out, errs, got := w.sp(stdin, args...)
	if got != exit {
		w.t.Fatalf("sp %s: exit %d, want %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), got, exit, out, errs)
	}
	return out, errs
}

// operator opens the operators' door.
func (w *world) operator(a answers) {
	w.t.Helper()
	addr := filepath.Join(w.dir, "operator.sock")
	l, err := net.Listen("unix", addr)
	if err != nil {
		w.t.Fatal(err)
	}
	routes := maps.Clone(a)
	s := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		q := w.note(r)
		answer := routes[q.path]
		if f, ok := answer.(func(asked) any); ok {
			answer = f(q)
		}
		if answer == nil {
			answer = api.Fail("unknown_method", "the test has no answer to "+q.path)
		}
		status := http.StatusOK
		if e, ok := answer.(*api.Error); ok {
			status = api.Lookup(e.Code).Status
		}
		b, err := json.Marshal(answer)
		if err != nil {
			w.t.Error(err)
		}
		rw.WriteHeader(status)
		rw.Write(b)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(l)
	}()
	w.t.Cleanup(func() {
		s.Close()
		<-done
	})
	if err := w.home().PublishOperator(addr); err != nil {
		w.t.Fatal(err)
	}
}

// note reads a command as strictly as the gateway does.
func (w *world) note(r *http.Request) asked {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Error(err)
	}
	line, value, ok := bytes.Cut(body, []byte("\n"))
	q := asked{path: strings.TrimPrefix(r.URL.Path, api.OperatorPrefix), value: value}
	if err := json.Unmarshal(line, &q.env, json.RejectUnknownMembers(true)); err != nil || !ok {
		w.t.Errorf("%s: the first line is no envelope: %v", q.path, err)
	}
	for _, route := range api.Routes {
		if route.Path == q.path && route.Proof != (q.env.Proof != nil) {
			w.t.Errorf("%s: proof sent is %v, the route says %v", q.path, q.env.Proof != nil, route.Proof)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, q)
	return q
}

// last is the last command that was sent, its args read into args.
func (w *world) last(path string, args any) asked {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.asked) == 0 || w.asked[len(w.asked)-1].path != path {
		w.t.Fatalf("the last command is no %s: %+v", path, w.asked)
	}
	q := w.asked[len(w.asked)-1]
	w.decode(q, args)
	return q
}

// decode reads a command's args, where they are wanted.
func (w *world) decode(q asked, args any) {
	w.t.Helper()
	if args != nil {
		if err := json.Unmarshal(q.env.Args, args, json.RejectUnknownMembers(true)); err != nil {
			w.t.Fatalf("%s: args %s: %v", q.path, q.env.Args, err)
		}
	}
}

// count is how many commands were sent, besides questions for the gateway's state.
func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, q := range w.asked {
		if q.path != api.PathStatus {
			n++
		}
	}
	return n
}

// agents opens the agents' door; answer makes the response to each request.
func (w *world) agents(answer func(api.Request) api.Response) {
	w.t.Helper()
	l, err := net.Listen("unix", filepath.Join(w.dir, "agent.sock"))
	if err != nil {
		w.t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				d := jsontext.NewDecoder(c, jsontext.AllowDuplicateNames(true))
				for {
					var r api.Request
					if json.UnmarshalDecode(d, &r) != nil {
						return
					}
					b, err := json.Marshal(answer(r))
					if err != nil {
						w.t.Error(err)
					}
					fmt.Fprintf(c, "%s\n", b)
				}
			})
		}
	})
	w.t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
}

// file writes a file beside the home and returns its path.
func (w *world) file(name, text string) string {
	w.t.Helper()
	path := filepath.Join(filepath.Dir(w.dir), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s lacks %q:\n%s", what, p, text)
		}
	}
}

func lacks(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			t.Errorf("%s holds %q:\n%s", what, p, text)
		}
	}
}
