package event

import (
	"iter"
	"time"
)

// Item is a decoded record and its place in the log. Time is the commit's.
type Item struct {
	Seq   uint64
	Time  time.Time
	Event Event
}

// Line is one line of Sessions or Activity. Intent is what the log said before of the same action: for people, who would
// else have to look it up; it is no part of the JSON.
type Line struct {
	Item
	Intent Call
}

// Sessions folds the log into who ran, under which authority. It is pure: same items, same lines.
func Sessions(in iter.Seq[Item]) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		for it := range in {
			if Type(it.Event) == "" || IsActivity(it.Event) {
				continue
			}
			it.Event = value(it.Event).Interface().(Event)
			if !yield(Line{Item: it}) {
				return
			}
		}
	}
}

// Activity folds the log into single calls in their order. It is pure: same items, same lines. It remembers the intents
// that have no result yet, and no more.
func Activity(in iter.Seq[Item]) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		open := map[string]Call{}
		for it := range in {
			if !IsActivity(it.Event) {
				continue
			}
			it.Event = value(it.Event).Interface().(Event)
			l := Line{Item: it}
			switch e := it.Event.(type) {
			case ToolCalled:
				open[e.Action] = e.Call
			case OperatorCalled:
				open[e.Action] = e.Call
			case ToolFinished:
				l.Intent = open[e.Action]
				delete(open, e.Action)
			case ToolUnresolved:
				l.Intent = open[e.Action]
				delete(open, e.Action)
			}
			if !yield(l) {
				return
			}
		}
	}
}
