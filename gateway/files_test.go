package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
)

// A body that was sealed reads back from every offset, and one that was changed, cut, swapped or put under another key
// does not.
func TestFile(t *testing.T) {
	for _, size := range []int{1, fileChunk - 1, fileChunk, fileChunk + 1, 3*fileChunk + 77} {
		dir := filepath.Join(t.TempDir(), "files")
		body := make([]byte, size)
		rand.Read(body)
		w, err := newFile(dir, "act_1")
		if err != nil {
			t.Fatal(err)
		}
		for rest := body; len(rest) > 0; {
			n := min(len(rest), 1+len(rest)/3)
			if _, err := w.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		k := w.kept
		if k.Size != int64(size) {
			t.Fatalf("size %d, want %d", k.Size, size)
		}
		for _, at := range []int{0, 1, size / 2, fileChunk - 1, fileChunk, size - 1, size, size + 1} {
			for _, n := range []int{1, fileChunk, size + 10} {
				got, eof, err := readFile(dir, "act_1", k, int64(at), n)
				want := body[min(at, size):min(at+n, size)]
				if err != nil || !bytes.Equal(got, want) || eof != (at+n >= size) {
					t.Fatalf("size %d, %d bytes at %d: %d bytes, eof %t, %v", size, n, at, len(got), eof, err)
				}
			}
		}
		name := filepath.Join(dir, "act_1")
		if i, err := os.Stat(name); err != nil || i.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", i.Mode(), err)
		}
		sealed, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if size > 100 && bytes.Contains(sealed, body[:50]) {
			t.Error("the body lies in the clear")
		}
		other := k
		other.Key = make([]byte, 32)
		if _, _, err := readFile(dir, "act_1", other, 0, size); err == nil {
			t.Error("another key opens it")
		}
		wrong := [][]byte{append([]byte{sealed[0] ^ 1}, sealed[1:]...), sealed[:len(sealed)-1], append(sealed[:len(sealed)-1:len(sealed)-1], sealed[len(sealed)-1]^0x80)}
		if size > 2*fileChunk {
			box := fileChunk + gcmTag
			wrong = append(wrong, slicesOf(sealed[box:2*box], sealed[:box], sealed[2*box:]), sealed[:2*box])
		}
		for i, b := range wrong {
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, _, err := readFile(dir, "act_1", k, 0, size); err == nil {
				t.Errorf("size %d: damage %d reads as %d bytes", size, i, len(got))
			}
		}
	}
}

func slicesOf(parts ...[]byte) (out []byte) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func filePartOf(t *testing.T, res api.Response) (p api.FilePart) {
	t.Helper()
	if res.Error != nil || json.Unmarshal(res.Result, &p) != nil {
		t.Fatalf("%+v", res.Error)
	}
	return p
}

// An answer over 1 MiB is kept in a file, masked like any other, and read by its run in parts; a body is sent in chunks.
func TestLongBodies(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 100_000) // 1.6 MB
	up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/long":
			io.WriteString(w, long[:800_000]+testSecret+long[800_000:])
		case "/edge":
			io.WriteString(w, long[:inlineLimit])
		case "/sum":
			h := sha256.New()
			n, _ := io.Copy(h, q.Body)
			fmt.Fprintf(w, "%d %x", n, h.Sum(nil))
		}
	})
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET,POST "+up.URL+"/**")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.approveAll(ctx, "run")
	a := r.agent()
	res := a.ask("call", call0(up.URL+"/long", "GET"))
	var out api.HTTPResult
	if code(res) != "confirmed" || json.Unmarshal(res.Action.Result, &out) != nil || out.BodyFile == nil || *out.BodyFile != res.Action.ID || out.Body != "" || !out.BodyComplete {
		t.Fatalf("%s %+v", code(res), out)
	}
	read := func() string {
		var got []byte
		for {
			p := filePartOf(t, a.ask(api.MethodFile, api.FileRequest{Action: res.Action.ID, Offset: int64(len(got)), Length: 300_001}))
			if got = append(got, p.Data...); p.EOF {
				if p.Size != int64(len(got)) {
					t.Errorf("%d bytes of %d", len(got), p.Size)
				}
				return string(got)
			}
		}
	}
	got := read()
	if strings.Contains(got, testSecret) || !strings.HasPrefix(got, long[:800_000]) || !strings.HasSuffix(got, long[800_000:]) {
		t.Errorf("%d bytes came back", len(got))
	}
	edge := a.ask("call", call0(up.URL+"/edge", "GET"))
	if json.Unmarshal(edge.Action.Result, &out) != nil || out.BodyFile != nil || len(out.Body) != inlineLimit {
		t.Errorf("a body of 1 MiB: %d bytes, file %v", len(out.Body), out.BodyFile)
	}
	if got := code(a.ask(api.MethodFile, api.FileRequest{Action: edge.Action.ID})); got != "invalid_request" {
		t.Errorf("file of an action without one: %s", got)
	}
	for _, bad := range []api.FileRequest{{Action: res.Action.ID, Offset: -1}, {Action: res.Action.ID, Length: fileChunks + 1}} {
		if got := code(a.ask(api.MethodFile, bad)); got != "invalid_request" {
			t.Errorf("%+v: %s", bad, got)
		}
	}

	// A body in three chunks, used once.
	body := []byte(long[:1_000_000])
	var b api.Blob
	for i, part := range [][]byte{body[:400_000], body[400_000:999_999], body[999_999:]} {
		res := a.ask(api.MethodBlob, api.BlobRequest{Ref: b.Ref, Data: part, EOF: i == 2})
		if res.Error != nil || json.Unmarshal(res.Result, &b) != nil {
			t.Fatalf("%+v", res.Error)
		}
		if i == 1 {
			early := api.ActionRequest{Tool: api.ToolHTTP, Args: encode(api.HTTPArgs{URL: up.URL + "/sum", Method: "POST", BodyRef: b.Ref})}
			if got := code(a.ask("call", early)); got != "invalid_request" {
				t.Errorf("half a blob: %s", got)
			}
		}
	}
	q := api.ActionRequest{Tool: api.ToolHTTP, Args: encode(api.HTTPArgs{URL: up.URL + "/sum", Method: "POST", BodyRef: b.Ref})}
	sum := a.ask("call", q)
	if want := fmt.Sprintf("%d %x", len(body), sha256.Sum256(body)); sum.Action == nil || json.Unmarshal(sum.Action.Result, &out) != nil || out.Body != want {
		t.Errorf("the upstream got %q, want %q", out.Body, want)
	}
	if got := code(a.ask("call", q)); got != "invalid_request" {
		t.Errorf("a blob used twice: %s", got)
	}
	if left := r.acts.blobRoom.left.Load(); left != blobRoom {
		t.Errorf("%d bytes of room are not given back", blobRoom-left)
	}
	if got := code(a.ask(api.MethodBlob, api.BlobRequest{Ref: "blob_x", Data: []byte("x")})); got != "invalid_request" {
		t.Errorf("an unknown blob: %s", got)
	}
	left := r.agent()
	left.ask(api.MethodBlob, api.BlobRequest{Data: body})
	left.conn.Close()
	for r.acts.blobRoom.left.Load() != blobRoom {
	}

	// The file outlives the gateway; another run's and a revoked one's is not shown.
	if err := r.flushActions(ctx); err != nil {
		t.Fatal(err)
	}
	r.acts.mu.Lock()
	delete(r.acts.byID, res.Action.ID) // as after a restart: only the row is left
	r.acts.mu.Unlock()
	if again := read(); again != got {
		t.Error("the row does not open the file")
	}
	op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: res.Action.AgentRun})
	for method, params := range map[string]any{api.MethodFile: api.FileRequest{Action: res.Action.ID}, api.MethodBlob: api.BlobRequest{Data: []byte("x")}} {
		if got := code(a.ask(method, params)); got != "run_revoked" {
			t.Errorf("%s after the revocation: %s", method, got)
		}
	}
	r.stop()
	events(t, r.dir, r.created.ReaderIdentity)
}

// Whoever asks with a cursor reads along while the action runs, each byte once, and the secret never in part.
func TestReadAlong(t *testing.T) {
	step := make(chan string)
	up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		for s := range step {
			io.WriteString(w, s)
			w.(http.Flusher).Flush()
		}
	})
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.approveAll(ctx, "run")
	a := r.agent()
	first := a.send("call", call0(up.URL+"/events", "GET"))
	until(t, "the call", func() bool { return len(up.paths()) > 0 })
	id := r.acts.list("")[0].ID
	all, cursor := "", "0"
	next := func() {
		t.Helper()
		res := a.ask(api.MethodStatus, api.StatusRequest{Action: id, Cursor: cursor, WaitSeconds: 20})
		if res.Action == nil || res.Action.Output == nil {
			t.Fatalf("no output: %+v %+v", res.Action, res.Error)
		}
		all, cursor = all+res.Action.Output.Body, res.Action.Output.Cursor
	}
	pad := strings.Repeat(".", 400) // more than the scrubber holds back
	step <- "data: one\n" + pad
	for !strings.Contains(all, "one") {
		next()
	}
	step <- "data: " + testSecret[:10]
	step <- testSecret[10:] + "\n" + pad + "ä" + pad
	for !strings.Contains(all, "ä") {
		next()
		if strings.Contains(all, testSecret[:10]) {
			t.Fatal("half of the secret was shown")
		}
	}
	if res := a.ask(api.MethodStatus, api.StatusRequest{Action: id}); res.Action.Output != nil {
		t.Error("output without a cursor")
	}
	for _, bad := range []string{"-1", "x", "1.", "1.x", "99999999999"} {
		if got := code(a.ask(api.MethodStatus, api.StatusRequest{Action: id, Cursor: bad})); got != "invalid_request" {
			t.Errorf("cursor %q: %s", bad, got)
		}
	}
	close(step)
	res := <-first
	var out api.HTTPResult
	if json.Unmarshal(res.Action.Result, &out) != nil || !strings.HasPrefix(out.Body, all) {
		t.Errorf("what was read along is not how the result begins:\n%q\n%q", all, out.Body)
	}
	if res := a.ask(api.MethodStatus, api.StatusRequest{Action: id, Cursor: cursor}); res.Action.Output != nil || len(res.Action.Result) == 0 {
		t.Errorf("after the end: %+v", res.Action)
	}
}

// A file that can't be opened (no descriptor, no room on the disk) loses what is past the result's own bytes, and nothing
// else: it ends no gateway.
func TestSpillThatCantBegin(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "files")
	if _, err := newFile(dir, "act_1"); err != nil {
		t.Fatal(err)
	}
	s := &stream{spill: func() (*fileWriter, error) { return newFile(dir, "act_1") }} // its name is taken
	if n, err := s.Write(make([]byte, inlineLimit+1)); n != inlineLimit+1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if k, err := s.kept(); k != nil || err == nil {
		t.Errorf("%v, %v", k, err)
	}
	if !s.over() || len(s.bytes()) != inlineLimit {
		t.Errorf("%d bytes are shown", len(s.bytes()))
	}
}

// One process can't take the room of the others, by however many connections.
func TestBlobShare(t *testing.T) {
	all := &room{}
	all.open(blobRoom, blobShare)
	var greedy []*blobs
	put := func(pid int) *api.Error {
		s := newBlobs(all, pid)
		t.Cleanup(s.close)
		if pid == 1 {
			greedy = append(greedy, s)
		}
		_, fault := s.add(api.BlobRequest{Data: make([]byte, 1<<20)})
		return fault
	}
	for n := range 2 * blobRoom >> 20 {
		fault := put(1)
		if want := n < blobShare>>20; (fault == nil) != want {
			t.Fatalf("MiB %d of one process: %v", n, fault)
		}
		if n > blobShare>>20+3 {
			break
		}
	}
	if fault := put(2); fault != nil {
		t.Errorf("another process: %v", fault)
	}
	for _, s := range greedy {
		s.close()
	}
	if fault := put(1); fault != nil {
		t.Errorf("after all was given back: %v", fault)
	}
}
