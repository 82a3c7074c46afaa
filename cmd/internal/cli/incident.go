package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/auditlog/incident"
	"sallyport/gateway/api"
)

func (a *app) incident() *cobra.Command {
	var identity string
	var asJSON, asMarkdown bool
	cmd := &cobra.Command{
		Use:   "incident RUN [--identity FILE] [--json|--markdown]",
		Short: "Make the incident record of a run: one for each suspect process",
		Long: `Make the incident record of a run, one for each suspect process, whether the run is
active, revoked, orphaned or long over: who it was, by whose word it acted, what it did
last, what became of that, and what is left to do. It touches nothing.

It is made from the gateway's rows, each with its place in the log, and a look at the
processes that live, which is secondary. Then the log is verified as sp audit verify
does, and a checkpoint is taken. With --identity the record is made from the log too and
every difference is told; with a gateway that does not answer it is made from the log
alone.

What sp audit verify said, and its exit status, stand in the record, and are told on
stderr too when the log needs a look first.`,
		Example: "  sp incident run_01JV0000000000000000000001\n  sp incident 4f7c2a --identity reader.txt --markdown > incident.md",
		Args:    exactly("RUN"),
	}
	identityFlag(cmd, &identity)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	cmd.Flags().BoolVar(&asMarkdown, "markdown", false, "print Markdown, for a ticket")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		if asJSON && asMarkdown {
			return usage("give one of --json and --markdown")
		}
		var b readable
		if identity != "" {
			var err error
			if b, err = a.logOf(identity); err != nil {
				return err
			}
		}
		records, err := a.records(cmd.Context(), words[0], b)
		if err != nil {
			return err
		}
		v := a.verified(cmd.Context(), b)
		for i := range records {
			records[i].Verify = &v
			records[i].Follow()
		}
		switch {
		case asJSON:
			err = a.document(records)
		case asMarkdown:
			err = a.incidentMarkdown(records)
		default:
			err = a.incidentText(records)
		}
		if err == nil && v.Exit != 0 {
			a.say("sp: sp audit verify ends with %d: the log behind this record needs a look first", v.Exit)
		}
		return err
	}
	return cmd
}

// logOf is this user's log with the reader in a file. A log that can't be opened is told in the record, not instead of it.
func (a *app) logOf(identity string) (readable, error) {
	who, err := a.reader(identity)
	if err != nil {
		return readable{}, err
	}
	b := readable{reader: who}
	if b.folder, err = a.openFolder(""); err != nil {
		return readable{reader: who, folder: folder{segments: noSegments{}}}, nil
	}
	b.key, err = a.trust(b.folder, "", "")
	return b, err
}

// records asks the gateway, and with an identity the log too.
func (a *app) records(ctx context.Context, typed string, b readable) ([]incident.Record, error) {
	read := b.reader.file != ""
	records, got, err := a.askIncident(ctx, typed, read)
	switch {
	case err == nil && !read:
		return records, nil
	case err == nil:
		return a.compared(b, records, got)
	case read && isCode(err, "gateway_unreachable"):
		return a.fromLog(b, typed)
	}
	return nil, err
}

// askIncident is the gateway's answer.
func (a *app) askIncident(ctx context.Context, typed string, entries bool) (records []incident.Record, got api.Incident, err error) {
	id, err := a.runID(ctx, typed)
	if err != nil {
		return nil, got, err
	}
	if err := a.do(ctx, api.PathIncident, nil, api.IncidentArgs{ID: id, Entries: entries}, nil, &got); err != nil {
		return nil, got, err
	}
	if err := json.Unmarshal(got.Records, &records); err != nil {
		return nil, got, &adviceError{fmt.Errorf("read incident record: %w", err), "use the sp that came with this gateway"}
	}
	return records, got, nil
}

// fromLog makes the record of the log alone: no gateway answers.
func (a *app) fromLog(b readable, typed string) ([]incident.Record, error) {
	id, err := b.run(typed)
	if err != nil {
		return nil, err
	}
	all, err := a.logged(b, id, 0)
	if err != nil {
		return nil, err
	}
	records := incident.Of(id, slices.Values(all), "log", a.now())
	for i := range records {
		records[i].Unknown = append(records[i].Unknown, "the processes as they are now, and what the gateway's rows say: no gateway answers")
	}
	return records, nil
}

// compared lays the differences between rows and log beside the gateway's records: of each process its own, and of the
// run the events that only one of the two has.
func (a *app) compared(b readable, records []incident.Record, got api.Incident) ([]incident.Record, error) {
	log, err := a.logged(b, got.AgentRun, got.Upto)
	if err != nil {
		for i := range records {
			records[i].Unknown = append(records[i].Unknown, "what the log says, and so whether the rows agree with it: "+err.Error())
		}
		return records, nil
	}
	var rows []event.Item
	for _, e := range got.Entries {
		ev, err := event.Decode(e.Event)
		if err != nil {
			return nil, &adviceError{fmt.Errorf("read row of record %d: %w", e.Seq, err), "use the sp that came with this gateway"}
		}
		if e.Seq <= got.Upto { // what came since is in neither
			rows = append(rows, event.Item{Seq: e.Seq, Time: e.Time, Event: ev})
		}
	}
	now := a.now()
	byRows := incident.Of(got.AgentRun, slices.Values(rows), "rows", now)
	byLog := incident.Of(got.AgentRun, slices.Values(log), "log", now)
	differ := append(incident.Apart(got.AgentRun, rows, log), incident.Differences(byRows, byLog)...)
	for i := range records {
		records[i].Differences = append(records[i].Differences, differ...)
		for j := range records[i].Sources {
			records[i].Sources[j].From = "rows and log"
		}
	}
	return records, nil
}

// logged are the log's events up to a record; 0: all of them.
func (a *app) logged(b readable, run string, upto uint64) ([]event.Item, error) {
	segments, wipe := a.metered(b.segments, "read")
	defer wipe()
	items, failed := decode(b.records(segments))
	var out []event.Item
	for it := range items {
		if upto > 0 && it.Seq > upto {
			break
		}
		if incident.Concerns(run, it.Event) {
			out = append(out, it)
		}
	}
	return out, failed()
}

// verified is what sp audit verify says now, after the entries were taken, held against a checkpoint of the log behind
// them where one can be had; with a reader also what the log means.
func (a *app) verified(ctx context.Context, b readable) incident.Verify {
	v := incident.Verify{Command: "sp audit verify"}
	var c api.Checkpoint
	if err := a.do(ctx, api.PathCheckpoint, nil, nil, nil, &c); err != nil {
		v.Why = "no checkpoint: " + err.Error()
	} else {
		v.Checkpoint = c.Note
		v.Command += " --against CHECKPOINT"
	}
	if b.reader.file != "" {
		v.Command += " --identity FILE"
	}
	var out bytes.Buffer
	quiet := &app{env: a.env}
	quiet.out, quiet.err, quiet.outTTY, quiet.errTTY = &out, &out, false, false
	v.Exit = quiet.verifyAgainst(c.Note, b.reader)
	v.Output = out.String()
	return v
}

// verifyAgainst is sp audit verify of this user's log, with a checkpoint and a reader where there are such.
func (a *app) verifyAgainst(checkpoint string, who reader) int {
	log, err := a.openFolder("")
	if err != nil {
		return a.report(a.verify(), err)
	}
	key, err := a.trust(log, "", "")
	if err != nil {
		return a.report(a.verify(), err)
	}
	o := auditlog.VerifyOptions{Live: log.live}
	if checkpoint != "" {
		o.Checkpoint = []byte(checkpoint)
	}
	v := verdict{trust: key, against: "the checkpoint"}
	if err := v.reach(log, o); err != nil {
		return a.report(a.verify(), usage("%s", err))
	}
	fault := v.judge(a, readable{log, key, who}, who.file != "")
	a.showVerdict(v)
	if fault != nil && v.exit() != exitBroken {
		return a.report(a.verify(), fault)
	}
	return v.exit()
}
