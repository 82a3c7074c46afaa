package console

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sallyport/gateway/api"
)

// Live: one stream a tab tells when something changed, as the gateway's status, which names the log's last record. The
// page then asks for what it shows, in one request.

const (
	lookEvery = 200 * time.Millisecond
	pingEvery = 10 * time.Second // a tab that is gone is noticed by it
)

func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	t := tabOf(r)
	if t == nil {
		refuse(w, "this needs a tab's session; open the console with `sp console`")
		return
	}
	taken, done := s.tabs.stream(t)
	defer done()
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	door := s.cfg.Door(t.id)
	var last []byte
	said := time.Now()
	for {
		status, ok := ask(r.Context(), door, api.PathStatus)
		switch {
		case ok && !bytes.Equal(status, last):
			last, said = status, time.Now()
			fmt.Fprintf(w, "event: status\ndata: %s\n\n", status)
		case time.Since(said) >= pingEvery:
			said = time.Now()
			fmt.Fprint(w, ": ping\n\n")
		}
		out.SetWriteDeadline(time.Now().Add(pingEvery))
		if out.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-taken:
			return
		case <-t.over:
			return
		case <-look.C:
		}
	}
}

// ask puts one question without arguments to the door.
func ask(ctx context.Context, door http.Handler, path string) ([]byte, bool) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+api.OperatorPrefix+path, strings.NewReader("{}\n"))
	if err != nil {
		return nil, false
	}
	w := &inMemory{head: http.Header{}, status: http.StatusOK}
	door.ServeHTTP(w, r)
	return bytes.TrimSpace(w.body.Bytes()), w.status == http.StatusOK
}

// inMemory takes an answer of the in-process transport.
type inMemory struct {
	head   http.Header
	status int
	body   bytes.Buffer
}

func (m *inMemory) Header() http.Header         { return m.head }
func (m *inMemory) WriteHeader(status int)      { m.status = status }
func (m *inMemory) Write(b []byte) (int, error) { return m.body.Write(b) }
