package cli

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"sallyport/auditlog/event"
)

func (a *app) sessions() *cobra.Command {
	return a.reading("sessions", "Show who ran, under which authority", event.Sessions)
}

func (a *app) activity() *cobra.Command {
	return a.reading("activity", "Show the single calls, in order", event.Activity)
}

type fold func(iter.Seq[event.Item]) iter.Seq[event.Line]

// reading is one of the two logs, for a reviewer who brings an age identity.
func (a *app) reading(use, short string, f fold) *cobra.Command {
	var (
		run, since string
		asJSON     bool
	)
	cmd := &cobra.Command{
		Use:   use + " [DIR] --identity FILE",
		Short: short + ": with files alone",
		Long: short + `, from the log in DIR (this user's
own by default). It is decrypted with an age identity, the reader's or the recovery
one that sp init printed, and verified on the way.`,
		Args: atMost(1),
	}
	r := a.review(cmd)
	fl := cmd.Flags()
	fl.StringVar(&run, "run", "", "only what `RUN` did: its id, a beginning of it, or the short one that is printed here")
	fl.StringVar(&since, "since", "", "only what came after `T`, a time (RFC 3339) or a span (24h)")
	fl.BoolVar(&asJSON, "json", false, "print one JSON object a line")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		var only filter
		if since != "" {
			t, err := moment(since, a.now(), back)
			if err != nil {
				return usage("--since %s is neither a time nor a span", since)
			}
			only.since = t
		}
		b, err := r.open(append(args, "")[0])
		if err != nil {
			return err
		}
		if run != "" {
			if only.run, err = b.run(run); err != nil {
				return err
			}
		}
		return a.read(b, f, only, asJSON)
	}
	return cmd
}

// read prints the lines of a fold. A fault ends it after the lines that came before.
func (a *app) read(b readable, f fold, only filter, asJSON bool) error {
	segments, wipe := a.metered(b.segments, "read")
	defer wipe()
	items, failed := decode(b.records(segments))
	printed := false
	for l := range f(items) {
		if !only.match(l) {
			continue
		}
		printed = true
		var err error
		if asJSON {
			_, err = fmt.Fprintf(a.out, "%s\n", l.JSON())
		} else {
			_, err = fmt.Fprintln(a.out, l.Text())
		}
		if err != nil {
			return err
		}
	}
	if err := failed(); err != nil {
		return err
	}
	if !printed && only != (filter{}) {
		a.say("sp: the log has nothing here that --run and --since leave")
	}
	return nil
}

// filter narrows what is printed; the folds see everything.
type filter struct {
	run   string // its whole id
	since time.Time
}

func (f filter) match(l event.Line) bool {
	return !l.Time.Before(f.since) && (f.run == "" || runOf(l) == f.run)
}

// runOf is the run that a line is about.
func runOf(l event.Line) string {
	var of struct {
		Run string `json:"run"`
	}
	if err := json.Unmarshal(l.JSON(), &of); err != nil || of.Run == "" {
		return l.Intent.Run // an event that only names its action
	}
	return of.Run
}

// runsTold bounds how many runs are named when what was typed could be any of them.
const runsTold = 8

// run is the id of the one run of the log that typed names. A run the log does not
// know is an error: nothing found must not look like nothing done.
func (b readable) run(typed string) (string, error) {
	items, failed := decode(b.records(b.segments))
	var found []string
	seen := map[string]bool{"": true}
	for it := range items {
		id := runOf(event.Line{Item: it})
		if seen[id] || !names(runPrefix, typed, id) {
			continue
		}
		seen[id] = true
		if found = append(found, id); id == typed || len(found) == runsTold {
			break
		}
	}
	if err := failed(); err != nil {
		return "", err
	}
	id, err := resolve(runPrefix, typed, found)
	var unknown *noSuch
	if errors.As(err, &unknown) {
		return "", &adviceError{fmt.Errorf("this log knows no run %s", typed), "`sp audit sessions` without --run shows the runs it knows"}
	}
	return id, err
}
