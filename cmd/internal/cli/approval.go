package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

// approvalPrefix starts the id of every card.
const approvalPrefix = "ap_"

func (a *app) approvals() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "List the cards that wait for an answer",
		Long: `List the cards that wait for an answer. Below them stands one line for each session of processes
whose further questions wait behind the cards; ` + "`sp mute KEY`" + ` silences one.`,
		Args: exactly(),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array of the cards")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if asJSON {
			all, err := fetch[api.Approval](cmd.Context(), a, api.PathApprovalList, nil)
			if err != nil {
				return err
			}
			return a.document(all)
		}
		var t api.Table
		if err := a.do(cmd.Context(), api.PathApprovalTable, nil, nil, nil, &t); err != nil {
			return err
		}
		return a.approvalTable(t)
	}
	return cmd
}

func (a *app) approvalTable(t api.Table) error {
	columns := []column{{"ID", ids}, {"EFFECT", fixed}, {"TOOL", words}, {"CREDENTIAL", words}, {"ACTION", vital}, {"AGENT", words}, {"EXPIRES", fixed}}
	err := show(a, t.Cards, false, columns, func(c api.Approval) []string {
		first, rest, _ := strings.Cut(c.Summary, "\n")
		if rest != "" {
			first += " …" // the whole of it is on the card
		}
		return []string{c.ID, c.Effect, c.Tool, c.Credential, first, c.Agent.Command, a.left(c.ExpiresAt)}
	})
	for _, c := range t.More {
		a.say("%s", escape(moreLine(c)))
	}
	if t.Unproved > 0 {
		a.say("%s", unprovedLine(t.Unproved))
	}
	return err
}

// moreLine tells of the questions of one session that have no card.
func moreLine(c api.Chain) string {
	s := fmt.Sprintf("%d more from %s", c.Waiting, c.Text)
	if c.Muted {
		s = "muted: " + c.Text
	}
	if c.Refused > 0 {
		s += fmt.Sprintf(", %d refused", c.Refused)
	}
	switch {
	case c.Key == "":
		return s
	case c.Muted:
		return s + " (sp unmute " + c.Key + ")"
	}
	return s + " (sp mute " + c.Key + ")"
}

// unprovedLine warns of somebody who says no in the operator's place.
func unprovedLine(n int) string {
	return fmt.Sprintf("WARNING: %d denials, revocations or locks without a proof in the last minute; was that you? See `sp audit sessions`", n)
}

func (a *app) approve() *cobra.Command {
	args := api.ApproveArgs{}
	var until string
	var passkey bool
	cmd := &cobra.Command{
		Use:   "approve ID",
		Short: "Say yes to a card",
		Long: `Say yes to a card, after it was shown. ID may be a beginning that only one card has, or
the short one that listings and logs print.
The answer names the card as shown: if it changes meanwhile, the answer is void.
With --passkey it is given on a page of the console, whose address is printed: what a
passkey signs is shown, and signed, by the browser.`,
		Args: exactly("ID"),
	}
	ask := a.asker(cmd)
	f := cmd.Flags()
	f.StringVar(&args.Scope, "scope", "run", "use: this call only; run: this tool with this credential until the run ends")
	f.IntVar(&args.Uses, "uses", 0, "scope run: at most `N` calls")
	f.BoolVar(&args.AcceptWeak, "accept-weak", false, "for an agent whose identity is weak: let it use what is given like any other, for writes too")
	f.BoolVar(&passkey, "passkey", false, "answer with a passkey: print the page to do it on")
	f.StringVar(&until, "until", "", "scope run: no longer than `T`, a time (RFC 3339) or a span (2h)")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		if err := a.scope(&args, until, cmd.Flags().Changed("uses")); err != nil {
			return err
		}
		if passkey && (ask.fd >= 0 || slices.ContainsFunc([]string{"scope", "uses", "until", "accept-weak"}, cmd.Flags().Changed)) {
			return usage("--passkey takes no other flag: the page asks what the answer gives")
		}
		if err := ask.early(); err != nil {
			return err
		}
		card, err := a.card(cmd.Context(), words[0])
		if err != nil {
			return err
		}
		if err := checkCard(card); err != nil {
			return err
		}
		if card.Missing != "" {
			a.showCard(card, "nothing")
			return &adviceError{errors.New("no target of this name exists, so there is nothing to say yes to"), card.Missing}
		}
		yes, ok := gives(card, args)
		if passkey {
			return a.signOnPage(cmd.Context(), card)
		}
		a.showCard(card, yes)
		if !ok {
			return noSuchAnswer(card, args)
		}
		args.ID, args.CardDigest = card.ID, card.CardDigest
		proof, err := ask.proof(cmd.Context())
		if err != nil {
			return err
		}
		var g api.Grant
		if err := a.do(cmd.Context(), api.PathApprovalGrant, proof, args, nil, &g); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "approved: %s (%s)\n", escape(yes), escape(g.ID))
		return nil
	}
	return cmd
}

// signOnPage prints where a card is answered with a passkey.
func (a *app) signOnPage(ctx context.Context, card api.Approval) error {
	keys, err := fetch[api.Passkey](ctx, a, api.PathPasskeyList, nil)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return &adviceError{errors.New("no passkey is enrolled"), "make one with `sp passkey add`"}
	}
	var o api.ConsoleOpened
	if err := a.do(ctx, api.PathConsoleOpen, nil, nil, nil, &o); err != nil {
		return err
	}
	fmt.Fprintln(a.out, o.URL)
	a.say("answer card %s on this page, within %s; the link works once", escape(card.ID), a.left(card.ExpiresAt))
	return nil
}

// noSuchAnswer says why a card does not take an answer.
func noSuchAnswer(c api.Approval, args api.ApproveArgs) error {
	switch {
	case args.AcceptWeak:
		return usage("--accept-weak: the agent's identity is not weak, or it asks to read once")
	case len(c.Origin.Weak) > 0:
		return &adviceError{errors.New("the agent's identity is weak, so this write takes more than a yes"), "say --accept-weak beside the scope, or `sp deny` it"}
	}
	return usage("this card takes no answer of scope %s", args.Scope)
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
	var unknown *noSuch
	if errors.As(err, &unknown) {
		return api.Approval{}, api.Fail("not_found", "no card of the id "+typed+" waits: it was answered, or its time is over")
	}
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
