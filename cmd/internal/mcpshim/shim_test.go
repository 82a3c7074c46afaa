package mcpshim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/cmd/internal/mcpshim/first"
	"sallyport/gateway/api"
)

// M01: with stdin open and no gateway, initialize and tools/list are answered and the door is not touched.
func TestHandshakeWithoutGateway(t *testing.T) {
	d := &fakeDoor{}
	h := startShim(t, d)
	h.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`) // allowed before the handshake
	if r := h.hear(); string(r.ID) != "1" || string(r.Result) != "{}" {
		t.Fatalf("ping: %+v", r)
	}
	h.say(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`) // not allowed before it
	if r := h.hear(); string(r.ID) != "2" || r.Error == nil || r.Error.Code != -32600 {
		t.Fatalf("early tools/list: %+v", r)
	}
	h.handshake()
	h.say(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	if r := h.hear(); string(r.ID) != "3" || r.Error != nil {
		t.Fatalf("tools/list: %+v", r)
	}
	h.say(initialize)
	if r := h.hear(); r.Error == nil || r.Error.Code != -32600 {
		t.Fatalf("second initialize: %+v", r)
	}
	if used, _ := d.uses(); used != 0 {
		t.Fatalf("the door was used %d times", used)
	}
	h.in.Close()
	h.ends()
	h.silent()
	if used, closed := d.uses(); used != 0 || closed != 1 {
		t.Fatalf("used %d, closed %d", used, closed)
	}
}

func TestRevisions(t *testing.T) {
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-11-25", "2099-01-01": "2025-11-25", "1999-01-01": "2025-11-25", "": "2025-11-25",
	} {
		h := startShim(t, &fakeDoor{})
		h.say(strings.Replace(initialize, "2025-11-25", asked, 1))
		var res struct {
			ProtocolVersion string `json:"protocolVersion"`
			Capabilities    struct {
				Tools struct {
					ListChanged bool `json:"listChanged"`
				} `json:"tools"`
			} `json:"capabilities"`
			ServerInfo struct {
				Name    string `json:"name"`
				Version string `json:"version"`
			} `json:"serverInfo"`
			Instructions string `json:"instructions"`
		}
		r := h.hear()
		if err := json.Unmarshal(r.Result, &res, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%s: %v", r.Result, err)
		}
		if res.ProtocolVersion != want || !res.Capabilities.Tools.ListChanged || res.ServerInfo.Name == "" || res.ServerInfo.Version == "" {
			t.Errorf("asked %q: %s", asked, r.Result)
		}
		h.in.Close()
		h.ends()
	}
}

// M03: every bad line costs one error, and the shim lives on.
func TestBadLines(t *testing.T) {
	h := startShim(t, &fakeDoor{})
	h.handshake()
	for _, c := range []struct {
		line string
		code int64
		id   string
	}{
		{"hello", -32700, "null"},
		{"\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`, -32700, "null"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}`, -32700, "null"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("a", 17<<20) + `"}}`, -32600, "null"},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, -32600, "null"},
		{`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, -32600, "null"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","id":2}`, -32600, "null"},
		{`{"jsonrpc":"2.0","id":"a","method":"ping","x":2}`, -32600, `"a"`},
		{`{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}`, -32602, "7"},
		{`{"jsonrpc":"2.0","id":8,"method":"initialize","params":{"protocolVersion":7}}`, -32600, "8"},
		{`{"jsonrpc":"2.0","id":8,"method":"initialize","params":{"protocolVersion":[` + strings.Repeat(`"é",`, 1<<20) + `1]}}`, -32600, "8"},
		{`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"no_such_tool"}}`, -32602, "9"},
		{`{"jsonrpc":"2.0","id":10,"method":"tools/call"}`, -32600, "10"},
		{`{"jsonrpc":"2.0","id":11,"method":"notifications/initialized"}`, -32600, "11"},
	} {
		h.say(c.line)
		if r := h.hear(); r.Error == nil || r.Error.Code != c.code || string(r.ID) != c.id || len(r.Error.Message) > messageLimit+10 {
			t.Fatalf("%.80s: %+v", c.line, r)
		}
		h.say(`{"jsonrpc":"2.0","id":"alive","method":"ping"}`)
		if r := h.hear(); string(r.ID) != `"alive"` || r.Error != nil {
			t.Fatalf("after %.80s: %+v", c.line, r)
		}
	}
	h.say("", "  ", `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","method":"notifications/unknown","params":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.5}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none"}}`)
	h.in.Close()
	h.ends()
	h.silent()
}

// A flood of garbage on a host that does not read its stderr: the shim says little there.
func TestGarbageFlood(t *testing.T) {
	h := startShim(t, &fakeDoor{})
	for range 2000 {
		h.say("x")
		if r := h.hear(); r.Error == nil || r.Error.Code != -32700 {
			t.Fatalf("%+v", r)
		}
	}
	h.handshake()
}

// M04: ids come back as their bytes; "1" and 1 are two; one id is not used twice at once.
func TestIDs(t *testing.T) {
	release := make(chan struct{})
	d := &fakeDoor{session: func(context.Context) (api.Session, error) {
		<-release
		return api.Session{}, nil
	}}
	h := startShim(t, d)
	h.handshake()
	ids := []string{`1`, `"1"`, `9007199254740993`, `9007199254740992`, `-9223372036854775809`, `0`, `""`, `"\u00e9"`, `"a b"`}
	for _, id := range ids {
		h.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"session_status"}}`)
	}
	for _, again := range []string{`1`, `"\u0031"`, `"é"`} { // equal to ids in flight
		h.say(`{"jsonrpc":"2.0","id":` + again + `,"method":"ping"}`)
		if r := h.hear(); r.Error == nil || r.Error.Code != -32600 || string(r.ID) != "null" {
			t.Fatalf("id %s in use: %+v", again, r)
		}
	}
	close(release)
	var got []string
	for range ids {
		r := h.hear()
		h.tool(r)
		got = append(got, string(r.ID))
	}
	slices.Sort(got)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		t.Fatalf("ids %s, want %s", got, ids)
	}
	h.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`) // free again
	if r := h.hear(); string(r.ID) != "1" || r.Error != nil {
		t.Fatalf("%+v", r)
	}
}

func TestTooManyCalls(t *testing.T) {
	release := make(chan struct{})
	d := &fakeDoor{session: func(context.Context) (api.Session, error) {
		<-release
		return api.Session{}, nil
	}}
	h := startShim(t, d)
	h.handshake()
	for i := range callLimit {
		h.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"session_status"}}`, i))
	}
	h.say(`{"jsonrpc":"2.0","id":"over","method":"ping"}`)
	if r := h.hear(); string(r.ID) != `"over"` || r.Error == nil || r.Error.Code != codeTooMany {
		t.Fatalf("%+v", r)
	}
	close(release)
	for range callLimit {
		h.tool(h.hear())
	}
	h.say(`{"jsonrpc":"2.0","id":"over","method":"ping"}`)
	if r := h.hear(); r.Error != nil {
		t.Fatalf("%+v", r)
	}
}

const sshCall = `{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"ssh_exec","arguments":{"target":"h","argv":["true"]}}}`

// waiting is an Act that waits for the end of its context and says so.
func waiting() (d *fakeDoor, entered, ended chan struct{}) {
	entered, ended = make(chan struct{}), make(chan struct{})
	return &fakeDoor{act: func(ctx context.Context, _ api.ActionRequest) (api.Action, error) {
		close(entered)
		<-ctx.Done()
		close(ended)
		return api.Action{}, ctx.Err()
	}}, entered, ended
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal(what)
	}
}

// M05: a cancel ends the call's context, and nothing more is heard of it.
func TestCancel(t *testing.T) {
	d, entered, ended := waiting()
	h := startShim(t, d)
	h.handshake()
	h.say(sshCall)
	await(t, "the call does not reach the door", entered)
	h.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c\u0061ll","reason":"user"}}`)
	await(t, "the cancel does not end the call", ended)
	h.say(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if r := h.hear(); string(r.ID) != "2" {
		t.Fatalf("after the cancel: %+v", r)
	}
	h.in.Close()
	h.ends()
	h.silent()
}

// The handshake cannot be cancelled, and a cancel that crosses the answer is nothing.
func TestCancelNothing(t *testing.T) {
	h := startShim(t, &fakeDoor{})
	h.say(initialize, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"init"}}`)
	if r := h.hear(); string(r.ID) != `"init"` || r.Error != nil {
		t.Fatalf("%+v", r)
	}
	h.say(initialized, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if r := h.hear(); string(r.ID) != "2" {
		t.Fatalf("%+v", r)
	}
}

// What was read before EOF is answered, in however few writes it came.
func TestAnswersAfterEOF(t *testing.T) {
	d := &fakeDoor{targets: func(context.Context) ([]api.Target, error) { return nil, nil }}
	h := startShim(t, d)
	go func() { // one write, no newline at its end
		io.WriteString(h.in, initialize+"\n"+initialized+"\n"+`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_targets"}}`)
		h.in.Close()
	}()
	ids := []string{string(h.hear().ID), string(h.hear().ID)}
	if !slices.Equal(ids, []string{`"init"`, "2"}) {
		t.Fatalf("answers %s", ids)
	}
	h.ends()
	h.silent()
	if _, closed := d.uses(); closed != 1 {
		t.Fatalf("door closed %d times", closed)
	}
}

// M06, M07 and the signals: at EOF or the context's end a waiting call's context ends and Run returns in time.
func TestEndsWithCallWaiting(t *testing.T) {
	for name, end := range map[string]func(*rawHost){
		"EOF":     func(h *rawHost) { h.in.Close() },
		"context": func(h *rawHost) { h.stop() },
		"broken":  func(h *rawHost) { h.in.CloseWithError(errors.New("read error")) },
	} {
		t.Run(name, func(t *testing.T) {
			d, entered, ended := waiting()
			h := startShim(t, d)
			h.handshake()
			h.say(sshCall)
			await(t, "the call does not reach the door", entered)
			end(h)
			await(t, "the end does not end the call", ended)
			h.ends()
			if _, closed := d.uses(); closed != 1 {
				t.Errorf("door closed %d times", closed)
			}
		})
	}
}

// A door that heeds nothing does not hold the shim.
func TestEndsWithStuckDoor(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	d := &fakeDoor{act: func(context.Context, api.ActionRequest) (api.Action, error) {
		close(entered)
		<-release
		return api.Action{}, nil
	}}
	defer close(release)
	h := startShim(t, d)
	h.handshake()
	h.say(sshCall)
	await(t, "the call does not reach the door", entered)
	h.in.Close()
	h.ends()
	h.silent()
}

// M08: the host closed the shim's stdout and keeps stdin open.
func TestOutputClosed(t *testing.T) {
	d, entered, ended := waiting()
	h := startShim(t, d)
	h.handshake()
	h.say(sshCall)
	await(t, "the call does not reach the door", entered)
	h.out.Close()
	h.say(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	await(t, "the call outlives the host", ended)
	h.ends()
}

// A host that stops reading and then goes away.
func TestOutputUnread(t *testing.T) {
	d := &fakeDoor{}
	inR, inW := io.Pipe()
	_, outW := io.Pipe() // never read
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { done <- Run(ctx, first.Session{}, inR, outW, d) }()
	stuck := make(chan struct{})
	go func() {
		defer close(stuck)
		for range 10 * queueLength {
			if _, err := io.WriteString(inW, "garbage\n"); err != nil {
				return
			}
		}
	}()
	stop()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("Run does not return")
	}
	await(t, "the input was not closed", stuck)
}
