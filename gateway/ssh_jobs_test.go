package gateway

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
	"sallyport/sshexec/sshtest"
)

// jobRig is a gateway with a host whose account has a real shell.
func jobRig(t *testing.T) (r *rig, h *sshtest.Host, home string) {
	t.Helper()
	home = t.TempDir()
	key, public, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	h, err = sshtest.Start(t.Context(), sshtest.Options{User: "deploy", AuthorizedKey: public, Shell: sshtest.RealShell("sh", home)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	r = newRig(t, "")
	r.init()
	r.addKey("deploy-key", key)
	if _, err := r.addHost(h, []string{"sh", "-c", "*"}); err != nil {
		t.Fatal(err)
	}
	return r, h, home
}

func jobStart(script string) api.ActionRequest {
	return api.ActionRequest{Tool: api.ToolJob, Args: encode(api.SSHArgs{Target: "web", Argv: []string{"sh", "-c", script}})}
}

// waitDone waits until an action has ended.
func (r *rig) waitDone(id string) api.Action {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if a, ok := r.find(r.t.Context(), id); ok && a.State == api.Done {
			return a
		}
	}
	a, _ := r.find(r.t.Context(), id)
	r.t.Fatalf("action %s has not ended: %+v", id, a)
	return a
}

// waitTidy waits until no job has a folder in home.
func waitTidy(t *testing.T, home string) {
	t.Helper()
	var left []string
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if left, _ = filepath.Glob(filepath.Join(home, ".local/state/sallyport/jobs/*")); len(left) == 0 {
			return
		}
	}
	t.Errorf("left on the host: %q", left)
}

func exitOf(t *testing.T, a api.Action) int {
	t.Helper()
	var got api.SSHResult
	if err := json.Unmarshal(a.Result, &got); err != nil {
		t.Fatalf("result of %+v: %v", a, err)
	}
	return got.ExitStatus
}

// A job is accepted, read along, found after its run was revoked and over a lock, and recorded once.
func TestHostJob(t *testing.T) {
	r, _, home := jobRig(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.approveAll(ctx, "run")
	a := r.agent()
	res := a.ask("call", jobStart("echo begun; seq 1 2000; while [ ! -e go ]; do sleep 0.05; done; echo ended; exit 7"))
	if code(res) != "accepted" || res.Action.State != api.Running || res.Action.JobID == "" {
		t.Fatalf("start: %s %+v", code(res), res.Action)
	}
	id := res.Action.ID
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		res = a.ask(api.MethodStatus, api.StatusRequest{Action: id, Cursor: "0"})
		if res.Action != nil && res.Action.Output != nil && strings.HasPrefix(res.Action.Output.Stdout, "begun\n1\n2\n") { // the end is held back by what could be a secret's beginning
			break
		}
		if time.Now().After(end) {
			t.Fatalf("nothing to read along: %+v %+v", res.Action, res.Error)
		}
	}
	if err := os.WriteFile(filepath.Join(home, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := r.waitDone(id)
	if got.Outcome != "confirmed" || exitOf(t, got) != 7 || !strings.Contains(string(got.Result), `2000\nended`) {
		t.Errorf("ended: %+v", got)
	}
	waitTidy(t, home)

	// A second one ends while the vault is locked.
	if err := os.Remove(filepath.Join(home, "go")); err != nil {
		t.Fatal(err)
	}
	res = a.ask("call", jobStart("while [ ! -e go ]; do sleep 0.05; done; exit 3"))
	if code(res) != "accepted" {
		t.Fatalf("start: %s %+v", code(res), res.Action)
	}
	id2 := res.Action.ID
	op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: res.Action.AgentRun})
	op[api.Status](r, r.opLock, struct{}{})
	if err := os.WriteFile(filepath.Join(home, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.unlock()
	if got := r.waitDone(id2); got.Outcome != "confirmed" || exitOf(t, got) != 3 {
		t.Errorf("after a lock: %+v", got)
	}
	r.stop()
	if n := count(events(t, r.dir, r.created.ReaderIdentity), "job_changed"); n != 2 {
		t.Errorf("%d ends recorded, want 2", n)
	}
}

// A start that was recorded and never answered is looked up by its id: it ran, or it did not.
func TestHostJobAfterACrash(t *testing.T) {
	r, _, home := jobRig(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.approveAll(ctx, "run")
	a := r.agent()
	res := a.ask("call", jobStart("while [ ! -e go ]; do sleep 0.05; done; exit 5"))
	if code(res) != "accepted" {
		t.Fatalf("start: %s", code(res))
	}
	copied := snapshot(t, r.dir)
	r.stop() // two gateways of one home would both tidy up
	if err := os.WriteFile(filepath.Join(home, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again := newRig(t, copied)
	again.unlock()
	if got := again.waitDone(res.Action.ID); got.Outcome != "confirmed" || exitOf(t, got) != 5 {
		t.Errorf("%+v", got)
	}
	again.stop()
	if n := count(events(t, copied, r.created.ReaderIdentity), "job_changed"); n != 1 {
		t.Errorf("%d ends recorded, want 1", n)
	}
}

// Cancelled by its run with proof; by the operator after it has ended it stays what it is.
func TestHostJobCancel(t *testing.T) {
	r, _, home := jobRig(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.approveAll(ctx, "run")
	a := r.agent()
	res := a.ask("call", jobStart("trap : TERM; while :; do sleep 1; done"))
	if code(res) != "accepted" {
		t.Fatalf("start: %s", code(res))
	}
	id := res.Action.ID
	res = a.ask(api.MethodCancel, api.CancelRequest{Action: id})
	if res.Action == nil || res.Action.Outcome != "cancelled" || res.Action.State != api.Done || res.Action.Job == nil {
		t.Fatalf("cancel: %+v %+v", res.Action, res.Error)
	}
	if got := op[api.Action](r, r.opActionCancel, api.IDArgs{ID: id}); got.Outcome != "cancelled" {
		t.Errorf("again: %+v", got)
	}
	waitTidy(t, home)
	r.stop()
	if n := count(events(t, r.dir, r.created.ReaderIdentity), "job_changed"); n != 1 {
		t.Errorf("%d changes recorded, want 1", n)
	}
}
