package cli

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	"sallyport/auditlog/event"
)

// judging begins the errors of a verdict on meaning that could not be reached.
const judging = "check meaning: "

// judge reads the whole log and says what it means: the second verdict, apart from the chain's.
func (a *app) judge(b readable, records int64) (*event.Verdict, error) {
	items, failed := decode(b.records(b.segments))
	show, end := a.progress("meaning")
	defer end()
	v := event.Check(counted(items, show, records))
	if err := failed(); err != nil {
		var cannot unreadable
		if errors.As(err, &cannot) {
			return nil, &cannotJudge{err}
		}
		return nil, fmt.Errorf(judging+"%w", err)
	}
	return &v, nil
}

// cannotJudge: the chain has its verdict, and its meaning none.
type cannotJudge struct{ err error }

func (e *cannotJudge) Error() string { return judging + e.err.Error() }
func (e *cannotJudge) Unwrap() error { return e.err }

// counted shows how far the reading of records is.
func counted(in iter.Seq[event.Item], show func(done, total int64), records int64) iter.Seq[event.Item] {
	if show == nil {
		return in
	}
	return func(yield func(event.Item) bool) {
		for it := range in {
			show(int64(it.Seq), records) // a live log has more by now
			if !yield(it) {
				return
			}
		}
	}
}

// showMeaning prints the second verdict, apart.
func (a *app) showMeaning(v verdict) {
	m := v.meaning
	if m == nil {
		facts(a.out, "", "meaning     ", v.unjudged)
		return
	}
	word, colour := "sound", green
	switch n := len(m.Breaches); {
	case n == 1:
		word, colour = "breached: 1 breach", red
	case n > 1:
		word, colour = fmt.Sprintf("breached: %d breaches", n), red
	}
	fmt.Fprintf(a.out, "\nmeaning       %s\n", a.paint(colour, word))
	for _, b := range m.Breaches {
		seq := make([]string, len(b.Seq))
		for i, s := range b.Seq {
			seq[i] = fmt.Sprint(s)
		}
		fmt.Fprintf(a.out, "  record %s: %s: %s\n", strings.Join(seq, ", "), escape(b.Rule), escape(b.Text))
	}
	facts(a.out, "",
		"calls       ", fmt.Sprint(m.Calls),
		"no result   ", fmt.Sprintf("%d at the log's end", m.Unresolved),
		"doubtful    ", doubtful(m.Doubtful),
		"approvals   ", fmt.Sprintf("%d signed, %d unsigned: a passphrase leaves no signature", m.Signed, m.Unsigned),
	)
}

func doubtful(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d, recorded just after their grant had ended; whether they were refused a crash hid", n)
}
