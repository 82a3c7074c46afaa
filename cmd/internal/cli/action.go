package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

// actionPrefix starts the id of every action.
const actionPrefix = "act_"

var actionColumns = []column{{"ID", ids}, {"STATE", fixed}, {"OUTCOME", vital}, {"TOOL", words}, {"TARGET", words}, {"CREDENTIAL", words}, {"STARTED", times}, {"RUN", ids}}

func actionRow(x api.Action) []string {
	return []string{x.ID, x.State, x.Outcome, x.Tool, x.Target, x.Credential, stamp(x.StartedAt), x.AgentRun}
}

func (a *app) actions() *cobra.Command {
	return group("action", "The single calls", a.actionList(), a.actionShow(), a.actionCancel(), a.actionResolve())
}

func (a *app) actionList() *cobra.Command {
	var (
		asJSON bool
		of     string
	)
	cmd := &cobra.Command{Use: "ls", Short: "List the actions, newest first", Args: exactly()}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	cmd.Flags().StringVar(&of, "run", "", "only those of `RUN`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var args api.ListArgs
		if of != "" {
			id, err := a.runID(cmd.Context(), of)
			if err != nil {
				return err
			}
			args.AgentRun = id
		}
		all, err := fetch[api.Action](cmd.Context(), a, api.PathActionList, args)
		if err != nil {
			return err
		}
		return show(a, all, asJSON, actionColumns, actionRow)
	}
	return cmd
}

func (a *app) actionShow() *cobra.Command {
	return a.onAction(&cobra.Command{Use: "show ID", Short: "Show one action", Args: exactly("ID")}, api.PathActionShow)
}

// onAction makes cmd send its one id to path, and show the action that comes back.
func (a *app) onAction(cmd *cobra.Command, path string) *cobra.Command {
	var asJSON bool
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		id, err := a.actionID(cmd.Context(), words[0])
		if err != nil {
			return err
		}
		var x api.Action
		if err := a.do(cmd.Context(), path, nil, api.IDArgs{ID: id}, nil, &x); err != nil {
			return err
		}
		if asJSON {
			return a.document(x)
		}
		a.showAction(x)
		return nil
	}
	return cmd
}

func (a *app) showAction(x api.Action) {
	pairs := []string{
		"action", x.ID,
		"state", x.State,
		"outcome", x.Outcome,
		"resolved", x.Resolution,
		"tool", x.Tool,
		"target", x.Target,
		"credential", x.Credential,
		"run", x.AgentRun,
		"epoch", x.ExecutionEpoch,
		"started", stamp(x.StartedAt),
		"finished", stamp(x.FinishedAt),
		"job", x.JobID,
		"flags", strings.Join(x.Flags, ", "),
		"result", string(x.Result),
	}
	if e := x.Error; e != nil {
		pairs = append(pairs, "error", e.Code+": "+e.Reason, "next", e.Retry)
	}
	if j := x.Job; j != nil {
		pairs = append(pairs, "asked", j.Asked+" by "+j.Action, "answer", j.Outcome, "answered", string(j.Result))
		if j.Error != nil {
			pairs = append(pairs, "refusal", j.Error.Code+": "+j.Error.Reason)
		}
	}
	facts(a.out, "", pairs...)
}

func (a *app) actionResolve() *cobra.Command {
	var (
		happened, not, replay bool
		asJSON                bool
	)
	cmd := &cobra.Command{
		Use:   "resolve ID --happened|--did-not-happen|--replay",
		Short: "Say what became of a call whose outcome is unknown",
		Long: `Say what became of a call whose outcome is unknown: it may have taken effect, and the
same write is refused until you have looked at the service. Your word is recorded.`,
		Args: exactly("ID"),
	}
	ask := a.asker(cmd)
	f := cmd.Flags()
	f.BoolVar(&happened, "happened", false, "it took effect; the same write is free again")
	f.BoolVar(&not, "did-not-happen", false, "it had no effect; the same write is free again")
	f.BoolVar(&replay, "replay", false, "not known: let the same write be sent again all the same, though it may then happen twice")
	f.BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		var args api.ResolveArgs
		said := 0
		for word, is := range map[string]bool{"happened": happened, "did-not-happen": not, "replay": replay} {
			if is {
				args.Resolution = word
				said++
			}
		}
		if said != 1 {
			return usage("give exactly one of --happened, --did-not-happen and --replay")
		}
		if err := ask.early(); err != nil {
			return err
		}
		var err error
		if args.ID, err = a.actionID(cmd.Context(), words[0]); err != nil {
			return err
		}
		proof, err := ask.proof(cmd.Context())
		if err != nil {
			return err
		}
		var x api.Action
		if err := a.do(cmd.Context(), api.PathActionResolve, proof, args, nil, &x); err != nil {
			return err
		}
		if asJSON {
			return a.document(x)
		}
		fmt.Fprintf(a.out, "recorded: %s %s\n", escape(x.ID), map[string]string{
			"happened": "happened", "did-not-happen": "did not happen", "replay": "may be sent again"}[args.Resolution])
		return nil
	}
	return cmd
}

// actionID completes what the operator typed.
func (a *app) actionID(ctx context.Context, typed string) (string, error) {
	return complete(ctx, a, actionPrefix, typed, api.PathActionList, func(x api.Action) string { return x.ID })
}
