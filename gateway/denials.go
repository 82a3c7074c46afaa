package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"sallyport/auditlog/event"
)

// Denials are recorded with the care of successes, and must not become a weapon: the first of an epoch in a minute are
// records of their own, further ones are folded into one counted record a second, and all denials of a day have a budget
// that intents, results and revocations do not share.
const (
	singleDenials = 60
	denialMinute  = time.Minute
	denialBudget  = 64 << 20 // bytes a day
	overBudget    = 60       // seconds between counted records once the budget is used up
	denialKeys    = 4096     // epochs watched at once; more share one window
	otherDenials  = "other"  // the shared window
	denialRecord  = 320      // bytes of a record beside its event: frame, tag, padding, a share of the commit
	denialDay     = 24 * time.Hour
)

// denials counts refusals by who was refused. The zero value is not ready; see newDenials.
type denials struct {
	mu    sync.Mutex
	by    map[string]*window
	day   time.Duration // on the boot clock
	bytes int
	ticks int
}

// window is one epoch's minute, and what was folded in it since the last counted record.
type window struct {
	began  time.Duration
	single int
	folded *event.AuthorizationDenied
	codes  []string
}

func newDenials() *denials { return &denials{by: map[string]*window{}} }

// admit says whether a denial is a record of its own; else it is folded into its window's next counted one.
func (d *denials) admit(who string, ev event.AuthorizationDenied, at time.Duration, size int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at-d.day >= denialDay {
		d.day, d.bytes = at, 0
	}
	w := d.by[who]
	if w == nil {
		if len(d.by) >= denialKeys {
			who = otherDenials
			w = d.by[who]
		}
		if w == nil {
			w = &window{began: at}
			d.by[who] = w
		}
	}
	if at-w.began >= denialMinute {
		w.began, w.single = at, 0
	}
	if w.folded == nil && w.single < singleDenials && d.bytes < denialBudget {
		w.single++
		d.bytes += size
		return true
	}
	w.fold(ev)
	return false
}

// fold counts one more. The record keeps the first one's call; codes that differ are named in its detail.
func (w *window) fold(ev event.AuthorizationDenied) {
	if w.folded == nil {
		ev.Action = "" // it stands for many
		w.folded = &ev
	}
	w.folded.Count++
	if !slices.Contains(w.codes, ev.Reason) && len(w.codes) < 16 {
		w.codes = append(w.codes, ev.Reason)
	}
}

// due takes the counted records that may be written now, and forgets windows that are over.
func (d *denials) due(at time.Duration, all bool) []event.AuthorizationDenied {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ticks++
	over := d.bytes >= denialBudget
	if over && !all && d.ticks%overBudget != 0 {
		return nil
	}
	var out []event.AuthorizationDenied
	for who, w := range d.by {
		if w.folded == nil {
			if at-w.began >= denialMinute {
				delete(d.by, who)
			}
			continue
		}
		ev := *w.folded
		if len(w.codes) > 1 {
			ev.Detail = "codes: " + strings.Join(w.codes, " ")
		}
		w.folded, w.codes = nil, nil
		if over && len(out) > 0 { // past the budget one record stands for everybody's
			out[0].Count += ev.Count
			out[0].Detail = "of several epochs: the day's space for refusals is used up"
			continue
		}
		out = append(out, ev)
		d.bytes += len(event.Encode(ev)) + denialRecord
	}
	return out
}

// recordDenied tells the log of a refusal, singly or counted. Before init there is no log: it is only counted.
func (g *Gateway) recordDenied(ctx context.Context, subject string, ev event.AuthorizationDenied) {
	if g.log.w.Load() == nil {
		g.log.absent.Add(1)
		return
	}
	who := ev.Epoch
	if who == "" {
		who = fmt.Sprint(ev.Peer.ProcessID)
	}
	if g.denied.admit(who, ev, boot(), len(event.Encode(ev))+denialRecord) {
		seq, err := g.log.append(ctx, notes(event.Subject(subject), []event.Event{ev})...)
		g.complain("record denial", err)
		g.noticeRefusal(ev, seq)
		return
	}
	g.noticeRefusal(ev, 0)
}

// countDenials writes the counted records, each second.
func (g *Gateway) countDenials(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			g.flushDenials(ctx, false)
		}
	}
}

// flushDenials writes what is due; all: what is left, at a stop.
func (g *Gateway) flushDenials(ctx context.Context, all bool) {
	var evs []event.Event
	for _, ev := range g.denied.due(boot(), all) {
		evs = append(evs, ev)
	}
	if len(evs) > 0 {
		g.complain("record counted denials", g.log.note(ctx, "", evs...))
	}
}
