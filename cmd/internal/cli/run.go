package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

// runPrefix starts the id of every run.
const runPrefix = "run_"

func (a *app) runs() *cobra.Command {
	return a.confine(group("run", "The agent runs: one live instance of a client each; or start one, confined", a.runList(), a.runShow(), a.runRevoke(), a.runContain()))
}

func (a *app) runList() *cobra.Command {
	return listing(a, "ls", "List the runs", api.PathRunList,
		[]column{{"ID", ids}, {"STATE", fixed}, {"AGENT", words}, {"PID", fixed}, {"IDENTITY", fixed}, {"CALLS", fixed}, {"OPENED", times}},
		func(r api.Run) []string {
			return []string{r.ID, r.State, r.Agent.Command, strconv.Itoa(r.Agent.ProcessID), r.Agent.Identity, strconv.Itoa(r.Calls), stamp(r.OpenedAt)}
		})
}

func (a *app) runShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "show RUN", Short: "Show one run", Args: exactly("RUN")}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		id, err := a.runID(cmd.Context(), words[0])
		if err != nil {
			return err
		}
		var r api.Run
		if err := a.do(cmd.Context(), api.PathRunShow, nil, api.IDArgs{ID: id}, nil, &r); err != nil {
			return err
		}
		if asJSON {
			return a.document(r)
		}
		a.showRun(r)
		return nil
	}
	return cmd
}

func (a *app) showRun(r api.Run) {
	pairs := []string{
		"run", r.ID,
		"state", r.State,
		"agent", fmt.Sprintf("%s (pid %d)", r.Agent.Command, r.Agent.ProcessID),
		"identity", r.Agent.Identity,
		"program", r.Agent.ExeDigest,
		"opened", stamp(r.OpenedAt),
		"client gone", stamp(r.ClientUnavailableAt),
		"silent", since(r.UnresponsiveSince),
		"last action", stamp(r.LastActionStartedAt),
		"revoked", stamp(r.RevokedAt),
		"calls", strconv.Itoa(r.Calls),
		"", classWords(r),
	}
	for _, x := range r.Reparented {
		pairs = append(pairs, "reparented", fmt.Sprintf("pid %d: its parent %d ended %s, the client lives (parent now %d)", x.ProcessID, x.Parent, stamp(x.At), x.PPID))
	}
	for _, e := range r.Epochs {
		pairs = append(pairs, "epoch", strings.Join(strings.Fields(fmt.Sprintf("%s %s %s (pid %d)", e.ID, e.State, e.ServerLabel, e.ProcessID)), " "))
	}
	for _, x := range r.EndedGrants {
		pairs = append(pairs, "grant", fmt.Sprintf("%s void since %s: %s", x.ID, stamp(x.EndedAt), x.Why))
	}
	facts(a.out, "", pairs...)
}

// since is the beginning of something that goes on.
func since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return "since " + stamp(t)
}

// classWords tells the calls apart by the times above them, where there are any.
func classWords(r api.Run) string {
	c := r.CallClasses
	switch {
	case c == nil, r.ClientUnavailableAt.IsZero() && r.RevokedAt.IsZero():
		return ""
	case r.ClientUnavailableAt.IsZero():
		return fmt.Sprintf("%d before the revocation, %d uncertain, %d after it (and %d refused)", c.Before, c.Uncertain, c.After, c.Refused)
	}
	return fmt.Sprintf("%d before the client was lost, %d uncertain, %d after the revocation (and %d refused)", c.Before, c.Uncertain, c.After, c.Refused)
}

func (a *app) showRevoked(r api.Revoked) error {
	fmt.Fprintf(a.out, "%s is %s\n", escape(r.Run.ID), escape(r.Run.State))
	if len(r.Left) == 0 {
		fmt.Fprintln(a.out, "nothing had left that was still under way")
		return nil
	}
	fmt.Fprintf(a.out, "already left (%d):\n", len(r.Left))
	return show(a, r.Left, false, actionColumns, actionRow)
}

// runID completes what the operator typed.
func (a *app) runID(ctx context.Context, typed string) (string, error) {
	return complete(ctx, a, runPrefix, typed, api.PathRunList, func(r api.Run) string { return r.ID })
}
