package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// record is what the log says of one call: its intents, and how each ended.
type record struct{ ends []string }

// judge compares the three accounts of every call.
func (w *world) judge(calls int) {
	w.restart() // what the last life left open is told now
	if err := w.operator(api.PathLock, struct{}{}, nil); err != nil {
		w.t.Error(err)
	}
	w.kill()
	log := w.read()
	w.far.mu.Lock()
	defer w.far.mu.Unlock()
	count := map[string]int{}
	for n := 1; n <= calls; n++ {
		rec, seen, told := log[n], w.far.seen[n], w.told[n]
		wrong := func(format string, a ...any) {
			w.t.Errorf("call %d (log %v, seen %d times, told %q): %s", n, rec.ends, seen, told, fmt.Sprintf(format, a...))
		}
		end := "never called"
		switch len(rec.ends) {
		case 0:
		case 1:
			end = rec.ends[0]
		default:
			wrong("it has %d intents", len(rec.ends))
		}
		count[end]++
		if seen > 1 {
			wrong("it was seen twice")
		}
		if seen > 0 && !slices.Contains([]string{"confirmed", "sent_unconfirmed", "unresolved", "failed_remote"}, end) {
			wrong("it was seen")
		}
		if seen == 0 && end == "confirmed" {
			wrong("it was not seen")
		}
		code, own := strings.CutPrefix(told, errorMark)
		switch {
		case told == "": // killed before it was told anything
		case !own: // the gateway's word is what it recorded
			if end != told {
				wrong("the log says %s", end)
			}
		case code == "sent_unconfirmed", code == "gateway_restarted": // no more than a client can know
		case seen > 0:
			wrong("it was refused")
		}
	}
	w.t.Logf("%v; told: %v", count, counted(w.told))
	for _, must := range []string{"confirmed", "sent_unconfirmed", "not_sent", "unresolved"} {
		if count[must] == 0 {
			w.t.Errorf("no call ended as %s: this proves too little", must)
		}
	}
}

func counted(m map[int]string) map[string]int {
	out := map[string]int{}
	for _, v := range m {
		out[v]++
	}
	return out
}

// read opens the log as a reviewer does: the chain and the meaning must hold.
func (w *world) read() map[int]record {
	pub, err := os.ReadFile(filepath.Join(w.dir, "audit.pub"))
	if err != nil {
		w.t.Fatal(err)
	}
	dir := os.DirFS(filepath.Join(w.dir, "audit"))
	if rep, err := auditlog.Verify(dir, pub, auditlog.VerifyOptions{}); err != nil || rep.Verdict != "intact" && rep.Verdict != "torn" {
		w.t.Errorf("verify: %+v %v", rep, err)
	}
	number, out := map[string]int{}, map[int]record{}
	var items []event.Item
	for r, err := range auditlog.Read(dir, pub, w.made.ReaderIdentity) {
		if err != nil {
			w.t.Fatal(err)
		}
		ev, err := event.Decode(r.Body)
		if err != nil {
			w.t.Fatal(err)
		}
		items = append(items, event.Item{Seq: r.Seq, Time: r.Time, Event: ev})
		end := func(action, word string) {
			if n, ok := number[action]; ok {
				rec := out[n]
				rec.ends = append(rec.ends, word)
				out[n] = rec
			} else {
				w.t.Errorf("%s of %s, which has no intent", word, action)
			}
		}
		switch e := ev.(type) {
		case event.ToolCalled:
			n, _ := numbered(e.Preview)
			number[e.Action] = n
		case event.ToolFinished:
			end(e.Action, e.Outcome)
		case event.ToolUnresolved:
			end(e.Action, "unresolved")
		}
	}
	if v := event.Check(slices.Values(items)); len(v.Breaches) > 0 || v.Unresolved > 0 {
		w.t.Errorf("meaning: %+v", v)
	}
	if len(number) == 0 {
		w.t.Error("no call is in the log")
	}
	return out
}
