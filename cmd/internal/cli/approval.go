package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

// approvalPrefix starts the id of every card.
const approvalPrefix = "ap_"

func (a *app) approvals() *cobra.Command {
	return listing(a, "approvals", "List the cards that wait for an answer", api.PathApprovalList,
		[]column{{"ID", ids}, {"EFFECT", fixed}, {"TOOL", words}, {"CREDENTIAL", words}, {"ACTION", vital}, {"AGENT", words}, {"EXPIRES", fixed}},
		func(c api.Approval) []string {
			first, rest, _ := strings.Cut(c.Summary, "\n")
			if rest != "" {
				first += " …" // the whole of it is on the card
			}
			return []string{c.ID, c.Effect, c.Tool, c.Credential, first, c.Agent.Command, a.left(c.ExpiresAt)}
		})
}

func (a *app) approve() *cobra.Command {
	args := api.ApproveArgs{}
	var until string
	cmd := &cobra.Command{
		Use:   "approve ID",
		Short: "Say yes to a card",
		Long: `Say yes to a card, after it was shown. ID may be a beginning that only one card has, or
the short one that listings and logs print.
The answer names the card as shown: if it changes meanwhile, the answer is void.`,
		Args: exactly("ID"),
	}
	ask := a.asker(cmd)
	f := cmd.Flags()
	f.StringVar(&args.Scope, "scope", "run", "use: this call only; run: this tool with this credential until the run ends")
	f.IntVar(&args.Uses, "uses", 0, "scope run: at most `N` calls")
	f.StringVar(&until, "until", "", "scope run: no longer than `T`, a time (RFC 3339) or a span (2h)")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		if err := a.scope(&args, until, cmd.Flags().Changed("uses")); err != nil {
			return err
		}
		if err := ask.early(); err != nil {
			return err
		}
		card, err := a.card(cmd.Context(), words[0])
		if err != nil {
			return err
		}
		a.showCard(card, gives(card, args))
		args.ID, args.CardDigest = card.ID, card.CardDigest
		proof, err := ask.proof(cmd.Context())
		if err != nil {
			return err
		}
		var g api.Grant
		if err := a.do(cmd.Context(), api.PathApprovalGrant, proof, args, nil, &g); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "approved: %s (%s)\n", gives(card, args), escape(g.ID))
		return nil
	}
	return cmd
}

// scope checks the narrowing flags against each other.
func (a *app) scope(args *api.ApproveArgs, until string, uses bool) error {
	switch {
	case args.Scope != "use" && args.Scope != "run":
		return usage("--scope is use or run")
	case args.Scope == "use" && (uses || until != ""):
		return usage("--uses and --until narrow --scope run")
	case uses && args.Uses < 1:
		return usage("--uses is at least 1")
	}
	if until == "" {
		return nil
	}
	t, err := moment(until, a.now(), ahead)
	if err != nil || !t.After(a.now()) {
		return usage("--until %s is no time to come", until)
	}
	args.Until = t.UTC()
	return nil
}

// Where a span counts to, from now.
const (
	ahead = 1
	back  = -1
)

// moment reads a time (RFC 3339), or a span from now.
func moment(text string, now time.Time, to time.Duration) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(to * d), nil
	}
	return time.Parse(time.RFC3339, text)
}

// card fetches the one card that typed names.
func (a *app) card(ctx context.Context, typed string) (api.Approval, error) {
	all, err := fetch[api.Approval](ctx, a, api.PathApprovalList, nil)
	if err != nil {
		return api.Approval{}, err
	}
	ids := make([]string, len(all))
	for i, c := range all {
		ids[i] = c.ID
	}
	id, err := resolve(approvalPrefix, typed, ids)
	if err != nil {
		return api.Approval{}, err
	}
	for _, c := range all {
		if c.ID == id {
			return c, nil
		}
	}
	return api.Approval{}, api.Fail("not_found", "")
}

// gives is what a yes allows: more than the one call, unless args narrow it.
func gives(c api.Approval, args api.ApproveArgs) string {
	if args.Scope == "use" {
		return "this call only"
	}
	s := c.Tool
	if c.Credential != "" {
		s += " with " + c.Credential + " within its rules"
	}
	s += ", until the run ends"
	switch {
	case args.Uses == 1:
		s += ", once"
	case args.Uses > 1:
		s += fmt.Sprintf(", at most %d times", args.Uses)
	}
	if !args.Until.IsZero() {
		s += ", until " + stamp(args.Until) + " at the latest"
	}
	return escape(s)
}

// showCard prints the card, and last what a yes gives.
func (a *app) showCard(c api.Approval, yes string) {
	a.say("card %s, expires %s", escape(c.ID), a.left(c.ExpiresAt))
	pairs := []string{
		"agent", fmt.Sprintf("%s (pid %d, %s, %s)", c.Agent.Command, c.Agent.ProcessID, c.Agent.Identity, short(c.Agent.ExeDigest)),
		"run", c.AgentRun,
		"epoch", c.ExecutionEpoch,
		"tool", c.Tool,
		"credential", c.Credential,
		"target", c.Target,
		"effect", c.Effect,
		"plan", c.Digest,
	}
	label := "action"
	for l := range strings.SplitSeq(c.Summary, "\n") { // what the agent wrote has no line of its own in it
		pairs = append(pairs, label, l)
		label = ""
	}
	for _, g := range c.Gaps {
		pairs = append(pairs, "mind", g)
	}
	pairs = append(pairs, "yes gives", yes)
	facts(a.err, "  ", pairs...)
}

// left is how long until t.
func (a *app) left(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := t.Sub(a.now()).Round(time.Second)
	if d <= 0 {
		return "now"
	}
	return "in " + d.String()
}

func (a *app) deny() *cobra.Command {
	return &cobra.Command{
		Use:   "deny ID",
		Short: "Say no to a card",
		Args:  exactly("ID"),
		RunE: func(cmd *cobra.Command, words []string) error {
			id := words[0]
			if !whole(approvalPrefix, id) {
				c, err := a.card(cmd.Context(), id)
				if err != nil {
					return err
				}
				id = c.ID
			}
			if err := a.do(cmd.Context(), api.PathApprovalDeny, nil, api.IDArgs{ID: id}, nil, nil); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "denied %s\n", escape(id))
			return nil
		},
	}
}
