package demo

import (
	"context"
	"fmt"
	"iter"
	"os"
	"slices"
	"time"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
)

// records is the log in a folder, decrypted with the reader's identity and verified on the way.
func (d *demo) records(segments string) (items []event.Item, bodies [][]byte, err error) {
	for r, err := range auditlog.Read(os.DirFS(segments), d.op.pin, d.op.created.ReaderIdentity) {
		if err != nil {
			return nil, nil, err
		}
		e, err := event.Decode(r.Body)
		if err != nil {
			return nil, nil, fmt.Errorf("record %d: %w", r.Seq, err)
		}
		items, bodies = append(items, event.Item{Seq: r.Seq, Time: r.Time, Event: e}), append(bodies, r.Body)
	}
	return items, bodies, nil
}

// readLog lets the agent go, takes a copy of the log for the reviewer, and reads both logs out of it.
func (d *demo) readLog(ctx context.Context) error {
	if err := d.agent.close(); err != nil {
		return err
	}
	if err := d.recordedEnd(ctx); err != nil {
		return err
	}
	if err := copyLog(d.stage.segments(), d.review()); err != nil {
		return err
	}
	items, _, err := d.records(d.review())
	if err != nil {
		return err
	}
	d.seen.log = readEvents(items, d.seen.run.id)
	d.seen.log.sessions = d.print("Sessions: who ran, under which authority", event.Sessions(slices.Values(items)))
	d.seen.log.activity = d.print("Activity: the single calls, in order", event.Activity(slices.Values(items)))
	return nil
}

func (d *demo) print(head string, lines iter.Seq[event.Line]) (n int) {
	d.out.say("%s", head)
	for l := range lines {
		d.out.quote("", l.Text())
		n++
	}
	return n
}

// recordedEnd waits until the log tells of the shim's end: then nothing more is on its way into it.
func (d *demo) recordedEnd(ctx context.Context) error {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		items, _, err := d.records(d.stage.segments())
		if err != nil {
			return err
		}
		for _, it := range items {
			if e, ok := it.Event.(event.EpochEnded); ok && e.Run == d.seen.run.id {
				return nil
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the agent's end in the log: %w", ctx.Err())
		}
	}
}

// readEvents is what the log says of one run.
func readEvents(items []event.Item, run string) (l logSeen) {
	open := map[string]bool{}
	for _, it := range items {
		switch e := it.Event.(type) {
		case event.RunRevoked:
			if e.Run == run {
				l.revokedAt = it.Seq
			}
		case event.AuthorizationDenied:
			if e.Run == run {
				l.deniedAt, l.denied = it.Seq, e.Reason
			}
		case event.ApprovalGranted:
			if e.Run == run {
				l.approvals++
			}
		case event.ToolCalled:
			if e.Run == run {
				l.intents++
				open[e.Action] = true
			}
		case event.ToolFinished:
			if e.Outcome == "confirmed" && open[e.Action] {
				l.confirmed++
			}
			delete(open, e.Action)
		}
	}
	l.open = len(open)
	return l
}
