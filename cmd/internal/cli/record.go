package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"sallyport/auditlog"
)

// record is one record of the log, whole.
func (a *app) record() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show SEQ [DIR] --identity FILE",
		Short: "Show one record whole, as JSON: with files alone",
		Long: `Show one record whole, as JSON, from the log in DIR (this user's own by default): its
sequence number and time, what is in the clear, and its event. The log is verified up
to it.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("SEQ is missing")
			}
			return atMost(2)(cmd, args)
		},
	}
	r := a.review(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		seq, err := strconv.ParseUint(args[0], 10, 63)
		if err != nil || seq == 0 {
			return usage("SEQ is a record's number, from 1; %s is none", args[0])
		}
		b, err := r.open(append(args, "")[1])
		if err != nil {
			return err
		}
		return a.showRecord(b, seq)
	}
	return cmd
}

// recordDocument is one record. Own is the gateway's to open, with the vault.
type recordDocument struct {
	Seq     uint64         `json:"seq"`
	Time    time.Time      `json:"time"`
	Kind    string         `json:"kind"`              // note, intent, result
	Subject string         `json:"subject,omitempty"` // the id's ULID
	Own     []byte         `json:"own,omitempty"`
	Event   jsontext.Value `json:"event"`
}

func (a *app) showRecord(b readable, seq uint64) error {
	segments, wipe := a.metered(b.segments, "read")
	defer wipe()
	var last uint64
	for r, err := range b.records(segments) {
		if err != nil {
			return err
		}
		if last = r.Seq; last == seq {
			return a.showDocument(documentOf(r))
		}
	}
	return fmt.Errorf("show record %d: the log ends with record %d", seq, last)
}

func documentOf(r auditlog.Record) recordDocument {
	d := recordDocument{Seq: r.Seq, Time: r.Time, Own: r.Own, Event: jsontext.Value(r.Body)}
	d.Kind = map[auditlog.Kind]string{auditlog.Note: "note", auditlog.Intent: "intent", auditlog.Result: "result"}[r.Kind]
	if r.Subject != [16]byte{} {
		d.Subject = ulid.ULID(r.Subject).String()
	}
	if !d.Event.IsValid() { // what no gateway writes is shown all the same
		d.Event = quoted(r.Body)
	}
	return d
}

// quoted is bytes that are no JSON, as a JSON string.
func quoted(b []byte) jsontext.Value {
	q, err := jsontext.AppendQuote(nil, string(b))
	if err != nil {
		q = fmt.Appendf(nil, `"%x"`, b)
	}
	return q
}
