package gateway

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/store"
	"sallyport/vault"
)

// What people look through: calls and denials of all runs, and everything of one run, newest first and a page at a time.
// It is read from rows, which the open vault unseals; the log is where they come from.

// lookThrough is how many rows one search looks through before it answers with what it has.
const lookThrough = 8192

// placeOf and placeFrom are the two sides of a page's Next.
func placeOf(x store.Told) string {
	return strconv.FormatInt(x.At.UnixNano(), 10) + "." + strconv.FormatUint(x.Seq, 10)
}

func placeFrom(s string) (p store.Place, err error) {
	if s == "" {
		return p, nil
	}
	at, seq, ok := strings.Cut(s, ".")
	n, err := strconv.ParseInt(at, 10, 64)
	if err == nil && ok {
		p.At = time.Unix(0, n).UTC()
		p.Seq, err = strconv.ParseUint(seq, 10, 63)
	}
	if err != nil || !ok || n <= 0 {
		return p, api.Fail("invalid_request", "before: the next of the page before")
	}
	return p, nil
}

// pageSize is how many rows are wanted.
func pageSize(n int) (int, error) {
	switch {
	case n < 0 || n > api.PageLimit:
		return 0, api.Fail("invalid_request", fmt.Sprintf("limit: from 1 to %d", api.PageLimit))
	case n == 0:
		return api.PageLimit, nil
	}
	return n, nil
}

// current writes behind what waits, so that a page misses nothing.
func (g *Gateway) current(ctx context.Context) {
	g.complain("write behind what the log was told", g.flushTold(context.WithoutCancel(ctx)))
}

// unsealed is a told row's body.
func (g *Gateway) unsealed(x store.Told) ([]byte, error) {
	if !x.Sealed {
		return x.Body, nil
	}
	return g.vault.Unseal(store.UseTold, x.Key(), x.Body)
}

func (g *Gateway) opActivityList(r opRequest) (any, error) {
	var a api.ActivityArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	if !slices.Contains([]string{"", store.ToldCall, store.ToldDenied}, a.Class) {
		return nil, api.Fail("invalid_request", "class: call or denied")
	}
	place, err := placeFrom(a.Before)
	if err != nil {
		return nil, err
	}
	size, err := pageSize(a.Limit)
	if err != nil {
		return nil, err
	}
	if g.vault.State() != vault.Ready {
		return nil, api.Fail("vault_locked", "the rows are sealed while the vault is locked")
	}
	g.current(r.ctx)
	out := api.ActivityPage{Rows: []api.ActivityRow{}}
	want := bytes.ToLower([]byte(a.Search))
	for seen := 0; ; {
		q := store.ToldQuery{Run: a.AgentRun, Class: a.Class, Before: place, Limit: 512}
		if a.Search == "" && a.Outcome == "" {
			q.Limit = size - len(out.Rows) + 1
		}
		rows, err := g.db.ToldPage(r.ctx, q)
		if err != nil {
			return nil, err
		}
		page, err := g.activityRows(r.ctx, rows, want, a.Outcome, &out.Hidden)
		if err != nil {
			return nil, err
		}
		for _, x := range page {
			if len(out.Rows) == size {
				return out, nil
			}
			out.Rows, out.Next = append(out.Rows, x.ActivityRow), x.place
		}
		if len(rows) < q.Limit {
			out.Next = ""
			return out, nil
		}
		last := rows[len(rows)-1]
		place, out.Next = store.Place{At: last.At, Seq: last.Seq}, placeOf(last)
		if seen += len(rows); seen >= lookThrough {
			return out, nil
		}
	}
}

// found is a row and where it stands.
type found struct {
	api.ActivityRow
	place string
}

// activityRows opens rows, and keeps those that are calls or denials, hold want and ended as outcome says.
func (g *Gateway) activityRows(ctx context.Context, rows []store.Told, want []byte, outcome string, hidden *int) (out []found, err error) {
	var ids []string
	for _, x := range rows {
		if x.Class == "" {
			continue
		}
		body, err := g.unsealed(x)
		if err != nil || classOf(body) != x.Class {
			*hidden++
			continue
		}
		if len(want) > 0 && !bytes.Contains(bytes.ToLower(body), want) {
			continue
		}
		row, ok := activityRow(body)
		if !ok {
			*hidden++
			continue
		}
		row.Seq, row.Time = x.Seq, x.At
		if row.Class == store.ToldCall {
			ids = append(ids, row.Action)
		}
		out = append(out, found{row, placeOf(x)})
	}
	ends, err := g.db.Outcomes(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i := range out {
		x := &out[i].ActivityRow
		if x.Class != store.ToldCall {
			continue
		}
		x.Outcome = api.Running
		if a, ok := g.acts.get(x.Action); ok && a.State == api.Done {
			x.Outcome, x.FinishedAt = a.Outcome, a.FinishedAt
		} else if a, ok := ends[x.Action]; ok && a.State == api.Done {
			x.Outcome, x.FinishedAt = a.Outcome, a.Finished
		}
	}
	if outcome != "" {
		out = slices.DeleteFunc(out, func(x found) bool { return x.Outcome != outcome })
	}
	return out, nil
}

// activityRow reads an event's bytes.
func activityRow(body []byte) (row api.ActivityRow, ok bool) {
	ev, err := event.Decode(body)
	if err != nil {
		return row, false
	}
	of := func(class string, c event.Call) api.ActivityRow {
		return api.ActivityRow{Class: class, AgentRun: c.Run, ExecutionEpoch: c.Epoch, Action: c.Action, Tool: c.Tool, Credential: c.Credential,
			Target: escape(c.Target, 512), Operation: escape(c.Operation, 2048)}
	}
	switch e := ev.(type) {
	case event.ToolCalled:
		return of(store.ToldCall, e.Call), true
	case event.AuthorizationDenied:
		row = of(store.ToldDenied, e.Call)
		row.Outcome, row.Count, row.Detail = e.Reason, e.Count, escape(e.Detail, 512)
		if row.Tool == "" {
			row.Tool = e.Method
		}
		return row, true
	}
	return row, false
}

// mostSteps bounds a chart.
const mostSteps = 400

func (g *Gateway) opActivityRate(r opRequest) (any, error) {
	var a api.RateArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	if a.Seconds < 1 || a.Seconds > 31*24*3600 || a.Steps < 1 || a.Steps > mostSteps {
		return nil, api.Fail("invalid_request", fmt.Sprintf("seconds: from 1 to a month; steps: from 1 to %d", mostSteps))
	}
	g.current(r.ctx)
	step := time.Duration(a.Seconds) * time.Second
	from := now().Wall.Truncate(step).Add(-step * time.Duration(a.Steps-1))
	counts, err := g.db.ToldCounts(r.ctx, a.AgentRun, from, step)
	if err != nil {
		return nil, err
	}
	out := api.Rate{From: from, Seconds: a.Seconds, Calls: make([]int, a.Steps), Denied: make([]int, a.Steps)}
	for _, c := range counts {
		switch {
		case c.Step < 0 || c.Step >= int64(a.Steps):
		case c.Class == store.ToldCall:
			out.Calls[c.Step] = c.N
		case c.Class == store.ToldDenied:
			out.Denied[c.Step] = c.N
		}
	}
	return out, nil
}

func (g *Gateway) opRunTimeline(r opRequest) (any, error) {
	var a api.TimelineArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	place, err := placeFrom(a.Before)
	if err != nil {
		return nil, err
	}
	size, err := pageSize(a.Limit)
	if err != nil {
		return nil, err
	}
	if _, _, err := g.runOf(r.ctx, a.ID); err != nil {
		return nil, err
	}
	g.current(r.ctx)
	rows, err := g.db.ToldPage(r.ctx, store.ToldQuery{Run: a.ID, Before: place, Limit: size})
	if err != nil {
		return nil, err
	}
	out := api.Timeline{Lines: []api.TimelineLine{}}
	if len(rows) == size {
		out.Next = placeOf(rows[size-1])
	}
	var items []event.Item
	for _, x := range slices.Backward(rows) { // the folds read forwards
		body, err := g.unsealed(x)
		var ev event.Event
		if err == nil {
			ev, err = event.Decode(body)
		}
		if err != nil {
			out.Hidden++
			continue
		}
		items = append(items, event.Item{Seq: x.Seq, Time: x.At, Event: ev})
	}
	out.Lines = timelineOf(items)
	return out, nil
}

// timelineOf reads items as both logs do, newest first.
func timelineOf(items []event.Item) []api.TimelineLine {
	out := []api.TimelineLine{}
	add := func(l event.Line, log string) {
		out = append(out, api.TimelineLine{Seq: l.Seq, Time: l.Time, Log: log, Type: event.Type(l.Event), What: l.What(), Event: l.JSON()})
	}
	for l := range event.Sessions(slices.Values(items)) {
		add(l, "sessions")
	}
	for l := range event.Activity(slices.Values(items)) {
		add(l, "activity")
	}
	slices.SortStableFunc(out, func(a, b api.TimelineLine) int {
		if c := b.Time.Compare(a.Time); c != 0 {
			return c
		}
		return int(b.Seq) - int(a.Seq)
	})
	return out
}

// opSettingsShow tells what the operator decided, as an apply file would have it.
func (g *Gateway) opSettingsShow(r opRequest) (any, error) {
	if fault := decode(r.args, &struct{}{}); fault != nil {
		return nil, fault
	}
	if err := g.ready(); err != nil {
		return nil, err
	}
	s, err := readSettings(g.vault.Snapshot())
	if err != nil {
		return nil, err
	}
	return s.shown(), nil
}
