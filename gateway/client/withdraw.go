package client

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
)

// withdrawLimit is how long a gateway that does not read is offered a withdrawal.
const withdrawLimit = 100 * time.Millisecond

// Leave tells the gateway that the caller is going: calls that were not sent are
// withdrawn at once. Answers of what was sent may still come until Close.
func (c *Client) Leave() {
	if c.agent != nil {
		c.agent.leave()
	}
}

// leave withdraws what is awaited, and waits on for what had left already.
func (d *door) leave() {
	d.mu.Lock()
	l := d.line
	d.mu.Unlock()
	if l == nil {
		return
	}
	for _, id := range l.awaited() {
		l.withdraw(id)
	}
}

// withdraw tells the gateway that nobody waits for the call with this id any more. It waits for nothing but the writer.
func (l *line) withdraw(id string) {
	params, err := json.Marshal(api.CancelRequest{Request: id})
	if err != nil {
		return
	}
	frame, err := encode(api.Request{ID: "withdraw " + id, Method: api.MethodCancel, Params: params})
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), withdrawLimit)
	defer cancel()
	l.send(ctx, frame) // its answer is nobody's; a line that broke has withdrawn all
}

// awaited are the ids whose answers are waited for.
func (l *line) awaited() (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.waiting {
		ids = append(ids, id)
	}
	return ids
}
