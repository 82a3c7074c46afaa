package cli

import (
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"sallyport/auditlog"
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
		pub, identity string
		only          filter
		since         string
		asJSON        bool
	)
	cmd := &cobra.Command{
		Use:   use + " [DIR] --identity FILE",
		Short: short + ": with files alone",
		Long: short + `, from the log in DIR (this user's
own by default). It is decrypted with an age identity, the reader's or the recovery
one that sp init printed, and verified on the way.`,
		Args: atMost(1),
	}
	fl := cmd.Flags()
	fl.StringVar(&identity, "identity", "", "read with the age identity in `FILE`; - is stdin")
	fl.StringVar(&pub, "pub", "", "verify against the audit.pub in `FILE`, which does not come with DIR")
	fl.StringVar(&only.run, "run", "", "only what `RUN` did: its whole id")
	fl.StringVar(&since, "since", "", "only what came after `T`, a time (RFC 3339) or a span (24h)")
	fl.BoolVar(&asJSON, "json", false, "print one JSON object a line")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if identity == "" {
			return usage("--identity is missing")
		}
		if since != "" {
			t, err := moment(since, a.now(), back)
			if err != nil {
				return usage("--since %s is neither a time nor a span", since)
			}
			only.since = t
		}
		log, err := a.openFolder(append(args, "")[0])
		if err != nil {
			return err
		}
		t, err := a.trust(log, pub, "")
		if err != nil {
			return err
		}
		if t.fault != nil {
			return fmt.Errorf("read log: %s: %s", t.fault.Segment, t.fault.Detail)
		}
		if !t.pinned {
			a.say("sp: the key is %s: nothing from outside vouches for this log", t.by)
		}
		secret, err := a.identity(identity)
		if err != nil {
			return err
		}
		return a.read(log, t.pub, secret, f, only, asJSON)
	}
	return cmd
}

// read prints the lines of a fold. A fault ends it after the lines that came before.
func (a *app) read(log folder, pub []byte, identity string, f fold, only filter, asJSON bool) error {
	items, failed := decode(auditlog.Read(log.segments, pub, identity))
	for l := range f(items) {
		if !only.match(l) {
			continue
		}
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
	return failed()
}

// decode turns records into events until one fails; failed tells afterwards.
func decode(in iter.Seq2[auditlog.Record, error]) (items iter.Seq[event.Item], failed func() error) {
	var fault error
	items = func(yield func(event.Item) bool) {
		for r, err := range in {
			if err != nil {
				fault = err
				return
			}
			e, err := event.Decode(r.Body)
			if err != nil {
				fault = fmt.Errorf("read record %d: %w", r.Seq, err)
				return
			}
			if !yield(event.Item{Seq: r.Seq, Time: r.Time, Event: e}) {
				return
			}
		}
	}
	return items, func() error { return fault }
}

// filter narrows what is printed; the folds see everything.
type filter struct {
	run   string
	since time.Time
}

func (f filter) match(l event.Line) bool {
	if l.Time.Before(f.since) {
		return false
	}
	if f.run == "" {
		return true
	}
	var of struct {
		Run string `json:"run"`
	}
	if err := json.Unmarshal(l.JSON(), &of); err != nil {
		return false
	}
	if of.Run == "" { // an event that only names its action
		of.Run = l.Intent.Run
	}
	return of.Run == f.run || strings.TrimPrefix(of.Run, runPrefix) == f.run
}

// identity reads the file that holds an age identity.
func (a *app) identity(path string) (string, error) {
	if path != "-" {
		b, err := readFile(path)
		return string(b), err
	}
	b, err := io.ReadAll(io.LimitReader(a.in, fileLimit))
	if err != nil {
		return "", fmt.Errorf("read stdin: %w", err)
	}
	return string(b), nil
}
