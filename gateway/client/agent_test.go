package client_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
)

func action(id string) *api.Action {
	return &api.Action{ID: id, State: api.Done, Outcome: "confirmed", Result: jsontext.Value(`{"status":200}`)}
}

func httpCall(url string) api.ActionRequest {
	args, _ := json.Marshal(api.HTTPArgs{URL: url})
	return api.ActionRequest{Tool: api.ToolHTTP, Args: args}
}

// Answers may come in any order: each caller gets the one with its id.
func TestAnswersByID(t *testing.T) {
	h, dir := place(t)
	l := listen(t, dir)
	c := client.Agent(h)
	defer c.Close()
	const n = 64
	var served sync.WaitGroup
	served.Go(func() {
		g := accept(t, l)
		var all []api.Request
		for len(all) < n {
			r, ok := g.read()
			if !ok {
				t.Error("the client hung up")
				return
			}
			all = append(all, r)
		}
		for i := range all { // last first
			r := all[n-1-i]
			var p api.ActionRequest
			if err := json.Unmarshal(r.Params, &p); err != nil {
				t.Error(err)
			}
			g.answer(api.Response{ID: r.ID, Action: action(p.IdempotencyKey)})
		}
	})
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			r := httpCall("https://a.example/")
			r.IdempotencyKey = fmt.Sprint("key", i)
			x, err := c.Act(within(t), r)
			if err != nil || x.ID != r.IdempotencyKey {
				t.Errorf("call %d got %q, %v", i, x.ID, err)
			}
		})
	}
	calls.Wait()
	served.Wait()
}

func TestOtherMethods(t *testing.T) {
	h, dir := place(t)
	l := listen(t, dir)
	c := client.Agent(h)
	defer c.Close()
	go func() {
		g := accept(t, l)
		for {
			r, ok := g.read()
			if !ok {
				return
			}
			switch r.Method {
			case api.MethodTargets:
				g.answer(api.Response{ID: r.ID, Result: jsontext.Value(`[{"name":"gh","kind":"http","origin":"https://a.example","confirm":"never"}]`)})
			case api.MethodSession:
				g.answer(api.Response{ID: r.ID, Result: jsontext.Value(`{"agentRun":"run_1","executionEpoch":"ep_1","state":"pending","vault":"ready","grants":[]}`)})
			case api.MethodStatus:
				g.answer(api.Response{ID: r.ID, Error: api.Fail("action_unknown", "")})
			}
		}
	}()
	targets, err := c.Targets(within(t))
	if err != nil || len(targets) != 1 || targets[0].Origin != "https://a.example" {
		t.Errorf("targets %+v, %v", targets, err)
	}
	s, err := c.Session(within(t))
	if err != nil || s.AgentRun != "run_1" || s.Vault != "ready" {
		t.Errorf("session %+v, %v", s, err)
	}
	_, err = c.Status(within(t), api.StatusRequest{Action: "act_0"})
	want(t, err, "action_unknown")
	want(t, c.Do(within(t), api.PathStatus, nil, nil, nil, nil), "unknown_method")
}

// The args are the gateway's to judge: what is wrong with them arrives as it is.
func TestArgsPassUnchanged(t *testing.T) {
	h, dir := place(t)
	l := listen(t, dir)
	c := client.Agent(h)
	defer c.Close()
	got := make(chan string, 1)
	go func() {
		g := accept(t, l)
		line, err := g.r.ReadString('\n')
		if err != nil {
			t.Error(err)
		}
		got <- line
		g.answer(api.Response{ID: "1", Error: api.Fail("invalid_request", "")})
	}()
	_, err := c.Act(within(t), api.ActionRequest{Tool: "http_request", Args: jsontext.Value("{\"url\":\"a\",\n\"url\":\"b\",\"n\":null}")})
	want(t, err, "invalid_request")
	if line := <-got; !strings.Contains(line, `"args":{"url":"a","url":"b","n":null}`) {
		t.Errorf("the gateway got %s", line)
	}
	_, err = c.Act(within(t), api.ActionRequest{Tool: "http_request", Args: jsontext.Value("{")})
	want(t, err, "invalid_request")
}

func TestTooLargeIsRefusedHere(t *testing.T) {
	h, dir := place(t)
	l := listen(t, dir)
	c := client.Agent(h)
	defer c.Close()
	go func() {
		g := accept(t, l)
		for {
			r, ok := g.read()
			if !ok {
				return
			}
			g.answer(api.Response{ID: r.ID, Action: action("act_small")})
		}
	}()
	big := httpCall("https://a.example/" + strings.Repeat("x", api.FrameLimit))
	_, err := c.Act(within(t), big)
	want(t, err, "frame_too_large")
	if x, err := c.Act(within(t), httpCall("https://a.example/")); err != nil || x.ID != "act_small" {
		t.Errorf("the line did not outlive a frame that was too large: %+v %v", x, err)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for name, tt := range map[string]struct{ line, code string }{
		"unknown field":        {`{"id":"1","action":{"id":"a"},"more":1}`, "internal"},
		"not JSON":             {`{`, "internal"},
		"no action":            {`{"id":"1","result":{}}`, "internal"},
		"refused as a whole":   {`{"id":"","error":{"error":"peer_unidentified","reason":"r","next":"ask_operator"}}`, "peer_unidentified"},
		"neither id nor error": {`{"id":""}`, "gateway_restarted"},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := place(t)
			l := listen(t, dir)
			c := client.Agent(h)
			defer c.Close()
			go func() {
				g := accept(t, l)
				g.read()
				fmt.Fprintln(g, tt.line)
				g.read()
			}()
			_, err := c.Act(within(t), httpCall("https://a.example/"))
			want(t, err, tt.code)
		})
	}
}

// Who stops waiting gets told what is known, and the gateway is told; the line goes on, and the late answer is nobody's.
func TestStopWaiting(t *testing.T) {
	h, dir := place(t)
	l := listen(t, dir)
	c := client.Agent(h)
	defer c.Close()
	ctx, cancel := context.WithCancel(within(t))
	go func() {
		g := accept(t, l)
		first, _ := g.read()
		cancel()
		withdrawn, _ := g.read()
		if withdrawn.Method != api.MethodCancel || string(withdrawn.Params) != `{"request":"`+first.ID+`"}` {
			t.Errorf("after the caller went: %+v", withdrawn)
		}
		second, _ := g.read()
		g.answer(api.Response{ID: first.ID, Action: action("late")})
		g.answer(api.Response{ID: second.ID, Action: action("mine")})
		g.read()
	}()
	_, err := c.Act(ctx, httpCall("https://a.example/"))
	want(t, err, "sent_unconfirmed")
	if x, err := c.Act(within(t), httpCall("https://a.example/")); err != nil || x.ID != "mine" {
		t.Errorf("got %q, %v", x.ID, err)
	}
	_, err = c.Act(ctx, httpCall("https://a.example/")) // over before it began
	if got := code(t, err); got != "not_sent" && got != "sent_unconfirmed" {
		t.Errorf("code %s", got)
	}
}
