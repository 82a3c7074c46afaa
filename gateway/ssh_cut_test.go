package gateway

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/pkg/sftp"

	"sallyport/gateway/api"
	"sallyport/sshexec/sshtest"
)

// A connection that is cut around a command or a job's start: what had begun runs once, a job's exit status is found and
// recorded once, and nothing is told that isn't known.
func TestHostCut(t *testing.T) {
	for name, tt := range map[string]struct {
		runs, answers       bool // what the host does with the request before the cut
		command, job, runs1 string
	}{
		"before it ran":     {false, false, "sent_unconfirmed", "sent_unconfirmed", ""},
		"before the answer": {true, false, "sent_unconfirmed", "confirmed", "ran\n"},
		"after the answer":  {true, true, "confirmed", "confirmed", "ran\n"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			real := sshtest.RealShell("sh", home)
			var h *sshtest.Host
			var armed atomic.Bool
			key, public := newKey(t)
			h = startHost(t, sshtest.Options{AuthorizedKey: public, Shell: func(ctx context.Context, e sshtest.Exec) sshtest.Exit {
				if !strings.Contains(e.Line, "ledger") || !armed.CompareAndSwap(true, false) {
					return real(ctx, e)
				}
				x := sshtest.Exit{None: true}
				if !tt.answers {
					e.Stdout, e.Stderr = io.Discard, io.Discard
				}
				if tt.runs {
					x = real(context.WithoutCancel(ctx), e)
				}
				if !tt.answers {
					h.DropConns()
				}
				return x
			}})
			r := newRig(t, "")
			r.init()
			r.mustAdd("key", "ssh-key", key)
			if _, err := r.host("web", "key", h, func(a *api.HostArgs) { a.AllowArgv = [][]string{{"sh", "-c", "*"}} }); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go r.approveAll(ctx, "run")
			a := r.agent()
			armed.Store(true)
			res := a.ask("call", sshCall("web", "sh", "-c", "echo ran >>ledger1"))
			if code(res) != tt.command {
				t.Errorf("command: %s", code(res))
			}
			armed.Store(true)
			res = a.ask("call", jobStart("sleep 0.3; echo ran >>ledger2; exit 7"))
			if tt.answers {
				h.DropConns() // while it runs
			}
			if res.Action == nil || res.Action.JobID == "" {
				t.Fatalf("job: %+v", res)
			}
			if tt.job == "confirmed" {
				if got := r.waitDone(res.Action.ID); got.Outcome != "confirmed" || exitOf(t, got) != 7 {
					t.Errorf("job: %+v", got)
				}
			} else if res.Action.Outcome != tt.job || res.Action.State != api.Running {
				t.Errorf("job: %+v", res.Action)
			}
			for _, ledger := range []string{"ledger1", "ledger2"} {
				if b, _ := os.ReadFile(filepath.Join(home, ledger)); string(b) != tt.runs1 {
					t.Errorf("%s: %q", ledger, b)
				}
			}
			r.stop()
			changes := map[string]int{"confirmed": 1}[tt.job]
			if n := count(events(t, r.dir, r.created.ReaderIdentity), "job_changed"); changes == 1 && (n < 1 || n > 2) || changes == 0 && n != 0 {
				t.Errorf("%d changes recorded", n) // a lost answer may be found as running first
			}
		})
	}
}

// An upload that a revocation or a lock ends in its middle leaves what lay on the host.
func TestUploadCutHere(t *testing.T) {
	for name, end := range map[string]func(*rig, string){
		"revoke": func(r *rig, run string) { op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: run}) },
		"lock":   func(r *rig, _ string) { op[api.Status](r, r.opLock, struct{}{}) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			target := filepath.Join(dir, "f")
			if err := os.WriteFile(target, []byte("as before"), 0o600); err != nil {
				t.Fatal(err)
			}
			middle := make(chan struct{}, 1)
			key, public := newKey(t)
			h := startHost(t, sshtest.Options{AuthorizedKey: public, SFTP: func(ctx context.Context, e sshtest.Exec) sshtest.Exit {
				in := &stalling{r: e.Stdin, left: 300_000, ctx: ctx, middle: middle}
				s, err := sftp.NewServer(struct {
					io.Reader
					io.WriteCloser
				}{in, nopCloser{e.Stdout}})
				if err != nil {
					return sshtest.Exit{Status: 1}
				}
				_ = s.Serve()
				return sshtest.Exit{}
			}})
			r := newRig(t, "")
			r.init()
			r.mustAdd("key", "ssh-key", key)
			if _, err := r.host("web", "key", h, func(a *api.HostArgs) { a.AllowUpload = []string{dir} }); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go r.approveAll(ctx, "run")
			a := r.agent()
			ref := a.blob(make([]byte, 2_000_000))
			asked := a.send("call", api.ActionRequest{Tool: api.ToolUpload, Args: encode(api.TransferArgs{Target: "web", Path: target, BodyRef: ref})})
			receive(t, middle, "the middle of the upload")
			run := r.book.all()[0].id
			end(r, run)
			res := <-asked
			if c := code(res); c == "confirmed" || c == "not_sent" {
				t.Errorf("told as %s", c)
			}
			if b, err := os.ReadFile(target); err != nil || string(b) != "as before" {
				t.Errorf("the file is %d bytes, %v", len(b), err)
			}
		})
	}
}

// blob sends bytes for a later call.
func (a *agent0) blob(b []byte) (ref string) {
	a.t.Helper()
	for len(b) > 0 {
		n := min(len(b), 400_000)
		res := a.ask(api.MethodBlob, api.BlobRequest{Ref: ref, Data: b[:n], EOF: n == len(b)})
		ref, b = blobRef(a.t, res), b[n:]
	}
	return ref
}

// stalling reads up to left bytes, then nothing until ctx ends.
type stalling struct {
	r      io.Reader
	left   int
	ctx    context.Context
	middle chan<- struct{}
}

func (s *stalling) Read(b []byte) (int, error) {
	if s.left <= 0 {
		select {
		case s.middle <- struct{}{}:
		default:
		}
		<-s.ctx.Done()
		return 0, io.EOF
	}
	n, err := s.r.Read(b)
	s.left -= n
	return n, err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func blobRef(t testing.TB, res api.Response) string {
	t.Helper()
	var b api.Blob
	if res.Error != nil || json.Unmarshal(res.Result, &b) != nil {
		t.Fatalf("blob: %+v", res.Error)
	}
	return b.Ref
}
