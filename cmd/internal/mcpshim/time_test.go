package mcpshim

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
)

// timed runs a shim in a bubble of fake time and gives f its host.
func timed(t *testing.T, d Door, f func(t *testing.T, h *rawHost)) {
	synctest.Test(t, func(t *testing.T) {
		h := startShim(t, d)
		h.handshake()
		f(t, h)
		h.in.Close()
		h.ends()
		h.silent()
	})
}

// actAfter answers "pending" as the gateway does when the wait is over.
func actAfter(wait time.Duration) *fakeDoor {
	return &fakeDoor{act: func(ctx context.Context, r api.ActionRequest) (api.Action, error) {
		select {
		case <-time.After(wait):
			return api.Action{ID: "act_1", Tool: r.Tool, State: api.Pending}, nil
		case <-ctx.Done():
			return api.Action{}, context.Cause(ctx)
		}
	}}
}

// A call that waits 45 s tells progress every 10 s under the very token, then "pending" with the action's id, then no more.
func TestProgressThenPending(t *testing.T) {
	for _, token := range []string{`9007199254740993`, `"t"`, `0.5`} {
		timed(t, actAfter(api.WaitLimit*time.Second), func(t *testing.T, h *rawHost) {
			start := time.Now()
			h.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":` + token + `},"name":"ssh_exec","arguments":{}}}`)
			for i := range 4 {
				r := h.hearAt(start.Add(time.Duration(i+1) * progressEvery))
				if r.Method != "notifications/progress" || r.ID != nil || !strings.HasPrefix(string(r.Params), `{"progressToken":`+token+`,"progress":`+[]string{"10", "20", "30", "40"}[i]+`,"message":"`) {
					t.Fatalf("%+v", r)
				}
			}
			res := h.tool(h.hearAt(start.Add(45 * time.Second)))
			var a api.Action
			if err := json.Unmarshal(res.Structured, &a); err != nil || a.ID != "act_1" || a.State != api.Pending || res.IsError {
				t.Fatalf("%+v", res)
			}
			time.Sleep(time.Minute)
		})
	}
}

func TestNoProgressUnasked(t *testing.T) {
	for _, meta := range []string{``, `"_meta":{},`, `"_meta":{"progressToken":null},`, `"_meta":{"progressToken":{}},`} {
		timed(t, actAfter(api.WaitLimit*time.Second), func(t *testing.T, h *rawHost) {
			h.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + meta + `"name":"ssh_exec","arguments":{}}}`)
			if r := h.hearAt(time.Now().Add(45 * time.Second)); string(r.ID) != "1" {
				t.Fatalf("%+v", r)
			}
		})
	}
}

// No progress after a cancel either.
func TestNoProgressAfterCancel(t *testing.T) {
	d := &fakeDoor{act: func(context.Context, api.ActionRequest) (api.Action, error) { // heeds no cancel
		time.Sleep(30 * time.Second)
		return api.Action{ID: "act_1"}, nil
	}}
	timed(t, d, func(t *testing.T, h *rawHost) {
		h.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":1},"name":"ssh_exec","arguments":{}}}`)
		h.hearAt(time.Now().Add(progressEvery))
		h.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		time.Sleep(time.Minute)
	})
}

// A gateway that never answers: the call ends as unknown, never as "nothing happened".
func TestGatewayHangs(t *testing.T) {
	timed(t, actAfter(time.Hour), func(t *testing.T, h *rawHost) {
		h.say(sshCall)
		res := h.tool(h.hearAt(time.Now().Add(answerLimit)))
		var e api.Error
		if err := json.Unmarshal(res.Structured, &e); err != nil || !res.IsError || e.Code != "sent_unconfirmed" || !strings.Contains(e.Reason, noAnswer) || !strings.Contains(e.Reason, "may have taken effect") {
			t.Fatalf("%+v", res)
		}
	})
}

// The end takes drainGrace when a call waits, at most drainLimit when it heeds nothing, and no time when none is open.
func TestDrainTime(t *testing.T) {
	stuck := &fakeDoor{act: func(context.Context, api.ActionRequest) (api.Action, error) {
		time.Sleep(time.Hour)
		return api.Action{}, nil
	}}
	for _, c := range []struct {
		name string
		d    *fakeDoor
		call string
		want time.Duration
	}{
		{"idle", &fakeDoor{}, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 0},
		{"short call", actAfter(50 * time.Millisecond), sshCall, 50 * time.Millisecond},
		{"waiting call", actAfter(time.Hour), sshCall, drainGrace},
		{"stuck call", stuck, sshCall, drainLimit},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := startShim(t, c.d)
				h.handshake()
				h.say(c.call)
				synctest.Wait()
				start := time.Now()
				h.in.Close()
				h.ends()
				if took := time.Since(start); took != c.want {
					t.Errorf("took %v, want %v", took, c.want)
				}
				time.Sleep(2 * time.Hour) // the stuck call ends too, and leaves nothing behind
			})
		})
	}
}

// A line that was still being read when the session ended is answered or unsent, never half-done: after the end nothing
// reaches the door.
func TestNothingSentAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fakeDoor{}
		h := startShim(t, d)
		h.handshake()
		h.stop()
		synctest.Wait()
		if _, err := io.WriteString(h.in, sshCall+"\n"); err == nil {
			t.Error("the shim still reads")
		}
		h.ends()
		if used, _ := d.uses(); used != 0 {
			t.Errorf("the door was used %d times", used)
		}
	})
}

// hearAt waits for the next line and checks when it came.
func (h *rawHost) hearAt(when time.Time) reply {
	h.t.Helper()
	line, ok := <-h.lines
	if !ok {
		h.t.Fatal("the shim's output ended")
	}
	if now := time.Now(); !now.Equal(when) {
		h.t.Errorf("a line after %v, want %v: %s", now, when, line)
	}
	return h.parse(line)
}
