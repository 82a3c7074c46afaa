// Package mcpshim is `sp mcp`: MCP over standard input and output on the host's side, agent.sock on the gateway's.
//
// It speaks the revisions with a handshake (2024-11-05 to 2025-11-25) and the one without (2026-07-28), both in one
// process and side by side. Lines are read, checked and written here (jsonline); behind them stands the SDK's server with
// a session for each era, which knows requests by numbers of our own, so that an id goes back to the host as the bytes
// that came. The first answers of a session are known beforehand (first); the door is first used by a tools/call.
//
// Protocol errors are for protocol faults. What a call came to, refusals too, is a tool result with the gateway's document
// as structuredContent. The shim keeps nothing: it may be killed at any moment, and what was sent goes on in the gateway.
package mcpshim

import (
	"context"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	_ "sallyport/cmd/internal/mcpshim/calmenv"
	"sallyport/cmd/internal/mcpshim/first"
	"sallyport/gateway/api"
)

// Door is the agents' door. It is first used, and so first dialled, by a tools/call; it is called concurrently. Errors are
// *api.Error; any other error counts as "unknown whether it was sent". Ending ctx withdraws what has not been sent yet.
type Door interface {
	Act(ctx context.Context, r api.ActionRequest) (api.Action, error)
	Status(ctx context.Context, r api.StatusRequest) (api.Action, error)
	Cancel(ctx context.Context, r api.CancelRequest) (api.Action, error)
	SendFile(ctx context.Context, path string) (ref string, err error)
	SaveBody(ctx context.Context, a api.Action, path string) (n int64, err error)
	Targets(ctx context.Context) ([]api.Target, error)
	Session(ctx context.Context) (api.Session, error)
	Leave() // the host is going: what was not sent is withdrawn at once
	Close() error
}

// How a session ends. Hosts leave little time: some kill half a second after the first signal.
const (
	drainLimit = 300 * time.Millisecond // from the host's end to our return
	drainGrace = 200 * time.Millisecond // of it: calls may still end by themselves
)

// Run serves one host until in ends, out can no longer be written, or ctx ends; with Begun's input also until the process
// that feeds it has died. Then it reads no further line, gives the calls in flight drainGrace to be answered, ends the
// context of the others, closes d, and returns nil within drainLimit.
// Run owns in, out and d: it closes what can be closed.
//
// said is what was said to the host before, on the same streams.
func Run(ctx context.Context, said first.Session, in io.Reader, out io.Writer, d Door) error {
	over := make(chan struct{})
	c := newConn(said, in, out, func(c *conn) *mcp.Server { return newServer(&shim{door: d, conn: c, over: over}) })
	go c.readLines()
	go c.writeLines()
	if _, own := in.(*standard); own {
		go c.watchFeeder(said.Version != "")
	}
	select {
	case <-ctx.Done():
	case <-c.gone:
	}

	limit, grace := time.NewTimer(drainLimit), time.NewTimer(drainGrace)
	defer limit.Stop()
	defer grace.Stop()
	c.calls.refuse()
	go d.Leave() // a gateway that does not read must not hold us
	select {
	case <-c.calls.drained:
	case <-c.broken: // nobody reads the answers
	case <-grace.C:
	}
	close(over)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Close()
		select {
		case <-c.calls.drained:
		case <-c.closed: // the limit: a call does not heed its context
		}
		c.close()
		c.legacy.end()
		c.modern.end()
		<-c.flushed
	}()
	select {
	case <-ended:
	case <-limit.C:
		c.close()
	}
	for _, end := range []any{in, out} {
		if e, ok := end.(io.Closer); ok {
			e.Close()
		}
	}
	return nil
}
