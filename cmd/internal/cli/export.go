package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// export is the log in a form for other programs. What it leaves is readable: it
// is for whoever may read the log.
func (a *app) export() *cobra.Command {
	var format, file string
	cmd := &cobra.Command{
		Use:   "export [DIR] --identity FILE",
		Short: "Print every record as a line of JSON, and a checkpoint: with files alone",
		Long: `Print every record of the log in DIR (this user's own by default) as one JSON object
a line, Sessions and Activity in one: seq, time, type, then the event's fields.

The last line is {"checkpoint":…}: the signed note, and what it covers. The log is
verified against it first, and the export ends with the last record it covers. It
comes from --checkpoint, else from the gateway where the log is this user's own and the
vault is ready; a copied log without --checkpoint is exported whole, with
{"checkpoint":null}. A file without that last line is no whole export.`,
		Args: atMost(1),
	}
	r := a.review(cmd)
	cmd.Flags().StringVar(&format, "format", "jsonl", "jsonl: JSON, one object a line")
	cmd.Flags().StringVar(&file, "checkpoint", "", "end with the checkpoint in `FILE` (from sp audit checkpoint)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if format != "jsonl" {
			return usage("--format is jsonl")
		}
		b, err := r.open(append(args, "")[0])
		if err != nil {
			return err
		}
		note, err := a.anchorOf(cmd.Context(), b, file)
		if err != nil {
			return err
		}
		var end *anchor
		if note != nil {
			if end, err = a.hold(b, note); err != nil {
				return err
			}
		}
		return a.exportLines(b, end)
	}
	return cmd
}

// anchor is the last line of an export: a checkpoint and what it covers.
type anchor struct {
	Note string    `json:"note"`
	Seq  uint64    `json:"seq"` // the last record it covers
	Size int64     `json:"size"`
	Time time.Time `json:"time"`
}

// anchorOf is the checkpoint to end with: the file's, else the gateway's; nil: there is none to be had.
func (a *app) anchorOf(ctx context.Context, b readable, file string) ([]byte, error) {
	if file != "" {
		return readFile(file)
	}
	if !a.own(b.folder) {
		a.say("sp: this export carries no checkpoint: --checkpoint brings one")
		return nil, nil
	}
	var c api.Checkpoint
	err := a.do(ctx, api.PathCheckpoint, nil, nil, nil, &c)
	var refused *api.Error
	switch {
	case errors.As(err, &refused):
		a.say("sp: this export carries no checkpoint: %s\n  next: %s", escape(refused.Reason), escape(refused.Retry))
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []byte(c.Note), nil
}

// own says that f is the log that this user's gateway writes.
func (a *app) own(f folder) bool {
	h, err := a.home()
	if err != nil {
		return false
	}
	mine, err := os.Stat(h.Log())
	if err != nil {
		return false
	}
	is, err := os.Stat(f.top)
	return err == nil && os.SameFile(mine, is)
}

// hold verifies the log against the checkpoint that the export is to end with.
func (a *app) hold(b readable, note []byte) (*anchor, error) {
	pub, err := auditlog.ParsePub(b.key.pub)
	if err != nil {
		return nil, err
	}
	c, err := auditlog.ParseCheckpoint(note, pub)
	if err != nil {
		return nil, &adviceError{usage("the checkpoint is none of this log"), "give one that `sp audit checkpoint` printed for it"}
	}
	show, end := a.progress("verify")
	found, err := auditlog.Verify(b.segments, b.key.pub, auditlog.VerifyOptions{Checkpoint: note, Live: b.live, Progress: show})
	end()
	switch {
	case err != nil:
		return nil, err
	case found.Verdict == auditlog.Broken:
		return nil, &adviceError{fmt.Errorf("export log: it is %s at %s: %s", found.Kind, found.Segment, found.Detail), "`sp audit verify` tells more"}
	}
	return &anchor{Note: string(note), Seq: c.Seq, Size: c.Size, Time: c.Time}, nil
}

// exportLines prints the records that end covers (nil: all), and end. Without the last line it is no whole export.
func (a *app) exportLines(b readable, end *anchor) error {
	segments, wipe := a.metered(b.segments, "export")
	defer wipe()
	items, failed := decode(b.records(segments))
	for it := range items {
		if end != nil && it.Seq > end.Seq {
			a.say("sp: the export ends with record %d, as its checkpoint does; what the log got later is not in it", end.Seq)
			break
		}
		if _, err := fmt.Fprintf(a.out, "%s\n", event.Line{Item: it}.JSON()); err != nil {
			return err
		}
	}
	if err := failed(); err != nil {
		return err
	}
	return a.document(struct {
		Checkpoint *anchor `json:"checkpoint"`
	}{end})
}
