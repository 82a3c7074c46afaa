package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

func (a *app) secretRotate() *cobra.Command {
	var (
		args   api.RotateArgs
		keyFD  int
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Give a credential another value",
		Long: `Give a credential another value: asked for, or read from stdin where that is no
terminal, as in ` + "`sp secret add`" + `. Its rules stay. Every grant and every waiting card
that names it ends, its connections are closed, and calls under way get a second to
end; those are listed as they ended. The old value is overwritten.`,
		Example: `  sp secret rotate github < new-token
  sp secret rotate deploy-key < ~/.ssh/id_new`,
		Args: noValue("NAME"),
	}
	ask := a.asker(cmd)
	keyPassphraseFlag(cmd, &keyFD)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		args.Name = words[0]
		var out api.Altered
		err := a.sendValue(cmd.Context(), ask, keyFD, args.Name, false, func(v sent) error {
			args.ValueLength, args.ValueDigest, args.PassphraseLength = v.Len(), v.Digest(), v.passphrase
			return a.do(cmd.Context(), api.PathCredentialRotate, v.proof, args, v.Value, &out)
		})
		if err != nil {
			return err
		}
		if asJSON {
			return a.document(out)
		}
		fmt.Fprintf(a.out, "rotated %s: version %d\n", escape(out.Credential.Name), out.Credential.Version)
		if out.Credential.Kind == "ssh-key" {
			a.showRules(out.Credential)
		}
		return a.showEnded(out.Ended)
	}
	return cmd
}

func (a *app) secretRebind() *cobra.Command {
	var (
		args   api.RebindArgs
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "rebind NAME [--allow RULE]… [--confirm MODE] [--account LABEL] …",
		Short: "Change what a credential may be used for; its value stays",
		Long: `Change what a credential may be used for; its value stays. Each flag replaces what
the credential has of it, a repeatable one all of them, and an empty one ('') takes it
away; what no flag names stays as it is. Shows what differs. Every grant and every
waiting card that names the credential ends, and so do the calls under way by them.`,
		Example: `  sp secret rebind github --allow 'GET https://api.github.com/repos/**'
  sp secret rebind stripe --confirm click --account 'test mode'`,
		Args: exactly("NAME"),
	}
	ask := a.asker(cmd)
	f := cmd.Flags()
	f.StringVar(&args.Account, "account", "", "`LABEL` of the account this belongs to, shown on cards")
	f.StringVar(&args.Confirm, "confirm", "", "never: quiet inside a grant; click: a person approves each use; passkey: and signs each with a passkey")
	f.StringVar(&args.Principal, "principal", "", "ssh-ca: the one `NAME` that certificates are for; empty: the host's user")
	rules := newRuleFlags(cmd)
	f.BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		if err := ask.early(); err != nil {
			return err
		}
		was, err := fetchNamed[api.CredentialShown](cmd.Context(), a, api.PathCredentialShow, words[0])
		if err != nil {
			return err
		}
		args.Name, args.Version = was.Name, was.Version
		if !f.Changed("account") {
			args.Account = was.Account
		}
		if !f.Changed("confirm") {
			args.Confirm = was.Confirm
		}
		if !f.Changed("principal") {
			args.Principal = was.Principal
		}
		if args.Rules, err = rules.over(was.Settings); err != nil {
			return err
		}
		proof, err := ask.proof(cmd.Context())
		if err != nil {
			return err
		}
		var out api.Altered
		if err := a.do(cmd.Context(), api.PathCredentialRebind, proof, args, nil, &out); err != nil {
			return err
		}
		if asJSON {
			return a.document(out)
		}
		fmt.Fprintf(a.out, "rebound %s: version %d\n", escape(out.Credential.Name), out.Credential.Version)
		a.showDiffering(out.Changes)
		return a.showEnded(out.Ended)
	}
	return cmd
}

func (a *app) secretRemove() *cobra.Command {
	return a.remove("credential", "Every grant and every waiting card that names it ends, and so do the calls under way by them.", api.PathCredentialRemove)
}

// remove is `rm NAME` of a noun.
func (a *app) remove(noun, ends, path string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "rm NAME", Short: "Remove a " + noun, Long: "Remove a " + noun + ". " + ends, Args: exactly("NAME")}
	ask := a.asker(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		proof, err := ask.proof(cmd.Context())
		if err != nil {
			return err
		}
		var out api.Ended
		if err := a.do(cmd.Context(), path, proof, api.NameArgs{Name: words[0]}, nil, &out); err != nil {
			return err
		}
		if asJSON {
			return a.document(out)
		}
		fmt.Fprintf(a.out, "removed %s\n", escape(words[0]))
		return a.showEnded(out)
	}
	return cmd
}

// showDiffering shows what a change made another.
func (a *app) showDiffering(changes []api.Change) {
	for _, c := range changes {
		from, to := c.Old, c.New
		if from == "" {
			from = "nothing"
		}
		if to == "" {
			to = "nothing"
		}
		fmt.Fprintf(a.out, "  %s\n    from %s\n    to   %s\n", escape(c.Setting), escape(from), escape(to))
	}
}

// showEnded says what a change took back.
func (a *app) showEnded(e api.Ended) error {
	for _, g := range e.Grants {
		fmt.Fprintf(a.out, "  ended grant %s\n", escape(g))
	}
	if len(e.Left) == 0 {
		return nil
	}
	fmt.Fprintln(a.out, "  calls that had left already, as they ended:")
	return show(a, e.Left, false, actionColumns, actionRow)
}
