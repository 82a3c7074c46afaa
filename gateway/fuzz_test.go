package gateway

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
)

// Whatever a line on agent.sock holds, it gets exactly one answer, in the form of the contract, with a code of the table;
// and the gateway lives on.
func FuzzAgentLine(f *testing.F) {
	for _, s := range []string{
		`{"id":"1","method":"session"}`,
		`{"id":"1","method":"targets","params":{}}`,
		`{"id":"1","method":"status","params":{"action":"act_1","waitSeconds":0}}`,
		`{"id":"1","method":"call","params":{"tool":"http_request","args":{"url":"http://127.0.0.1:9/a?b=c#d","method":"POST","headers":{"Accept":"x","X-Evil":"y\r\nz"},"query":{"k":"v"},"body":"\u0000\u202e"},"idempotencyKey":"k","waitSeconds":1}}`,
		`{"id":"1","method":"call","params":{"tool":"http_request","args":{"target":"up","path":"/a/..;/b"}}}`,
		`{"id":"1","method":"call","params":{"tool":"ssh_exec","args":{"target":"web","argv":["a","$(b)"],"stdin":"x","timeoutSeconds":1}}}`,
		`{"id":"1","method":"call","params":{"tool":"ssh_exec","args":{"target":"web","shell":"a"}}}`,
		`{"id":"1","id":"2"}`, `{"id":null}`, `[]`, `{`, "\xff", "", `{"id":"1","method":"approve"}`, `{"ID":"1","method":"session"}`,
		`{"id":"1","method":"call","params":{"tool":"http_request","args":` + strings.Repeat("[", 80) + strings.Repeat("]", 80) + `}}`,
		`{"id":"` + strings.Repeat("é", 200) + `","method":"session"}`,
		`{"id":"1","method":"call","params":{"` + strings.Repeat("é", 200) + `":1}}`,
	} {
		f.Add([]byte(s))
	}
	r := newRig(f, "")
	r.init()
	r.addBearer("up", "GET,POST http://127.0.0.1:9/**")
	go r.approveAll(f.Context(), "run")
	c, err := net.Dial("unix", r.cfg.Home.AgentSocket())
	if err != nil {
		f.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReaderSize(c, api.FrameLimit)
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 || len(line) > 1<<16 {
			t.Skip() // several lines, or one that takes long
		}
		c.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := c.Write(append(bytes.Clone(line), '\n')); err != nil {
			t.Fatal(err)
		}
		b, err := in.ReadSlice('\n')
		if err != nil {
			t.Fatalf("no answer to %q: %v", line, err)
		}
		var res api.Response
		if err := json.Unmarshal(b, &res, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("answer %q: %v", b, err)
		}
		said := 0
		for _, x := range []bool{res.Error != nil, res.Action != nil, res.Result != nil} {
			if x {
				said++
			}
		}
		if said != 1 {
			t.Fatalf("answer %q", b)
		}
		if res.Error != nil && api.Lookup(res.Error.Code).Name != res.Error.Code {
			t.Fatalf("code %s is not in the table", res.Error.Code)
		}
		if bytes.Contains(b, []byte(testSecret)) {
			t.Fatalf("the secret: %q", b)
		}
	})
}

// Whatever stands in an operator's request, it is answered with 200 or a code of the table, never an internal fault.
func FuzzOperatorRequest(f *testing.F) {
	for i := range api.Routes {
		for _, s := range []string{
			`{}`, `{"args":{}}`, `{"args":{"id":"x"}}`, `{"args":{"id":"ap_1","cardDigest":"sha256:0","scope":"run","uses":-1}}`,
			`{"proof":{"kind":"passphrase","value":"x"},"args":{"name":"a/../b","kind":"bearer","rules":{"allow":["GET https://x/"]}},"salt":"AAAA"}` + "\nvalue",
			`{"args":{"name":"web","address":"127.0.0.1:1","user":"u","credential":"k","hostKey":"ssh-ed25519 AAAA","allowArgv":[[""]]}}`,
			`{"args":{"agentRun":"é"}}`, `null`, "\xff\n\x00", `{"args":{"args":1}}`,
		} {
			f.Add(i, []byte(s))
		}
	}
	r := newRig(f, "")
	r.init()
	have := r.handlers()
	f.Fuzz(func(t *testing.T, i int, body []byte) {
		route := api.Routes[uint(i)%uint(len(api.Routes))]
		if route.Path == api.PathStop || route.Path == api.PathLock {
			t.Skip() // would end the rig
		}
		w := httptest.NewRecorder()
		r.verb(route, have[route.Path])(w, httptest.NewRequest(http.MethodPost, api.OperatorPrefix+route.Path, bytes.NewReader(body)))
		if w.Code == http.StatusOK {
			return
		}
		var e api.Error
		if err := json.Unmarshal(w.Body.Bytes(), &e, json.RejectUnknownMembers(true)); err != nil || api.Lookup(e.Code).Name != e.Code || e.Code == "internal" {
			t.Fatalf("%s %q: %d %s %v", route.Path, body, w.Code, w.Body, err)
		}
	})
}
