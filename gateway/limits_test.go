package gateway

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// An agent that uses up the descriptors is not served for a while; it must not end the gateway.
func TestAcceptOutlivesScarcity(t *testing.T) {
	r := newRig(t, "")
	r.init()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	none := was
	none.Cur = 3 // what is open stays open
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Skip("RLIMIT_NOFILE: " + err.Error())
	}
	err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: r.cfg.Home.AgentSocket()})
	time.Sleep(100 * time.Millisecond) // not for an outcome: only lets the accept fail, where it would
	if e := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); e != nil || err != nil {
		t.Fatal(e, err)
	}
	if got := code(r.agent().ask(api.MethodTargets, struct{}{})); got != "result" {
		t.Fatalf("after the shortage: %s", got)
	}
}

// Long lines share one room: beyond it they are refused, and what ended gives its part back.
func TestLongLinesShareRoom(t *testing.T) {
	r := newRig(t, "")
	r.init()
	r.acts.room.left.Store(3 << 20)
	dial := func() net.Conn {
		c, err := net.Dial("unix", r.cfg.Home.AgentSocket())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	half := dial()
	half.Write(bytes.Repeat([]byte("x"), 2<<20)) // no line's end
	until(t, "half a line's room", func() bool { return r.acts.room.left.Load() <= 1<<20+2*64<<10 })
	c := dial()
	go c.Write(append(bytes.Repeat([]byte(" "), 2<<20), '\n'))
	b, _ := io.ReadAll(c)
	var res api.Response
	if json.Unmarshal(b, &res) != nil || res.Error == nil || res.Error.Code != "busy" {
		t.Fatalf("a line beyond the room: %.200s", b)
	}
	if got := code(r.agent().ask(api.MethodTargets, struct{}{})); got != "result" {
		t.Fatalf("a short line meanwhile: %s", got)
	}
	half.Close()
	until(t, "the room that was given back", func() bool { return r.acts.room.left.Load() == 3<<20 })
}

// A waiting action keeps the room of its line though its caller was told "pending".
func TestPendingActionHoldsRoom(t *testing.T) {
	r := newRig(t, "")
	r.init()
	r.addBearer("up", "POST http://127.0.0.1:9/**")
	a := r.agent()
	res := a.ask(api.MethodCall, api.ActionRequest{Tool: api.ToolHTTP, WaitSeconds: 1,
		Args: encode(api.HTTPArgs{URL: "http://127.0.0.1:9/x", Method: "POST", Body: strings.Repeat("b", 1<<20)})})
	if res.Action == nil || res.Action.State != api.Pending {
		t.Fatalf("%+v", res)
	}
	if taken := lineRoom - r.acts.room.left.Load(); taken < 1<<20-2*lineFree {
		t.Fatalf("a pending action of 1 MiB holds %d bytes", taken)
	}
	op[struct{}](r, r.opApprovalDeny, api.IDArgs{ID: r.card().ID})
	a.ask(api.MethodStatus, api.StatusRequest{Action: res.Action.ID, WaitSeconds: 10})
	until(t, "the room that was given back", func() bool { return r.acts.room.left.Load() == lineRoom })
}

// A document costs memory by its parts and an error costs by its words: both are bounded.
func TestStrictBounds(t *testing.T) {
	var many strings.Builder
	many.WriteString(`{"a":1`)
	for i := range maxTokens {
		fmt.Fprintf(&many, `,"k%d":1`, i)
	}
	many.WriteString("}")
	long := strings.Repeat("é", 1<<16)
	for name, doc := range map[string]string{
		"many keys": many.String(), "twin": `{"` + long + `":1,"` + strings.ToUpper(long) + `":2}`,
		"null": `{"` + long + `":null}`, "unknown": `{"` + long + `":1}`, "double": `{"` + long + `":1,"` + long + `":1}`,
	} {
		e := decode([]byte(doc), &struct{}{})
		if e == nil || e.Code != "invalid_request" {
			t.Errorf("%s: %v", name, e)
			continue
		}
		if len(e.Reason) > 1024 {
			t.Errorf("%s: a reason of %d bytes", name, len(e.Reason))
		}
		if _, err := json.Marshal(e); err != nil {
			t.Errorf("%s: can't be answered: %v", name, err)
		}
	}
}

// Whoever is refused at the operators' door ten thousand times leaves no ten thousand records.
func TestRefusedOperatorsAreCounted(t *testing.T) {
	r := newRig(t, "")
	r.init()
	before, began := r.log.head().Records, boot()
	for range 500 {
		w := httptest.NewRecorder()
		r.keptOut(w, httptest.NewRequest("POST", "/v1/op/run/list", nil), "the caller is another user (uid 7)", event.Peer{ProcessID: 7})
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "operator_refused") {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	// Sixty a minute, and what is over in one record a second.
	took := uint64((boot() - began) / time.Second)
	if n := r.log.head().Records - before; n > singleDenials*(took/60+1)+took+3 {
		t.Errorf("500 refusals made %d records", n)
	}
	r.stop()
	counted := 0
	for _, e := range events(t, r.dir, r.created.ReaderIdentity) {
		switch e := e.(type) {
		case event.OperatorRefused:
			counted++
		case event.AuthorizationDenied:
			counted += e.Count
		}
	}
	if counted != 500 {
		t.Errorf("the log tells of %d refusals", counted)
	}
}

// A peer that takes long to be looked at keeps nobody else from the operators' door.
func TestSlowPeerBlocksNoOperator(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
			defer c.Close()
		}
	}()
	c, err := (&opListener{Listener: l, g: &Gateway{}}).Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	looked := true
	c.(*opConn).look.Do(func() { looked = false })
	if looked {
		t.Error("accept looked at the peer itself")
	}
}
