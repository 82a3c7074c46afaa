package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

func (a *app) secret() *cobra.Command {
	return group("secret", "The credentials in the vault",
		a.secretAdd(), a.secretList(), a.secretShow(), a.secretRotate(), a.secretRebind(), a.secretRemove(),
		a.secretImport(), a.secretPresets(), a.secretTest())
}

// severalLines tells the kinds whose value is a file that no prompt can take.
func severalLines(kind string) bool {
	return kind == "ssh-key" || kind == "ssh-ca" || kind == "github-app" || kind == "mtls"
}

func (a *app) secretAdd() *cobra.Command {
	var (
		args  api.CredentialArgs
		keyFD int
	)
	cmd := &cobra.Command{
		Use:   "add NAME {--kind KIND | --preset PRESET}",
		Short: "Store a credential and say what it may be used for",
		Long: `Store a credential and say what it may be used for. The value is asked for at the
terminal, or read from stdin where that is no terminal (to its end, one trailing
newline dropped). It is never an argument, and it can't be read back.

A rule is METHODS ORIGIN/PATH-PATTERN: * is one segment, ** the rest, {raw} one
segment that may hold %2F; ?KEY=PATTERN after the path constrains a query key.
A key file may have a passphrase. A PuTTY key is converted first:
puttygen KEY.ppk -O private-openssh -o KEY.
` + httpKinds,
		Example: `  sp secret add github --kind bearer --account ann --allow 'GET,POST https://api.github.com/repos/**' < token
  sp secret add github --preset github < token
  sp secret add jira --kind basic --username ann@example.org --allow 'GET https://example.atlassian.net/rest/**'
  sp secret add stripe --kind bearer --confirm click --idempotency-header Idempotency-Key \
     --allow 'POST https://api.stripe.com/v1/refunds' < key
  sp secret add deploy-key --kind ssh-key < ~/.ssh/id_ed25519`,
		Args: noValue("NAME"),
	}
	ask := a.asker(cmd)
	f := cmd.Flags()
	f.StringVar(&args.Kind, "kind", "", "how the value is sent: see above")
	f.StringVar(&args.Account, "account", "", "`LABEL` of the account this belongs to, shown on cards")
	f.StringVar(&args.Confirm, "confirm", "", "never: quiet inside a grant (default); click: a person approves each use; passkey: and signs each with a passkey")
	rules := newRuleFlags(cmd)
	f.StringVar(&args.Preset, "preset", "", "fill in what is known of a service: its `NAME`, see \"sp secret presets\"")
	f.StringVar(&args.Site, "site", "", "with --preset: the service's `HOST`, where it is not the usual one")
	f.StringVar(&args.Principal, "principal", "", "ssh-ca: the one `NAME` that certificates are for; by default the host's user")
	keyPassphraseFlag(cmd, &keyFD)
	cmd.RunE = func(cmd *cobra.Command, words []string) (err error) {
		args.Name = words[0]
		if args.Kind == "" && args.Preset == "" {
			return usage("--kind is missing, or --preset")
		}
		if args.Site != "" && args.Preset == "" {
			return usage("--site belongs to --preset")
		}
		if keyFD >= 0 && args.Kind != "ssh-key" && args.Kind != "ssh-ca" {
			return usage("--key-passphrase-fd belongs to --kind ssh-key and ssh-ca")
		}
		if args.Rules, err = rules.rules(); err != nil {
			return err
		}
		var c api.Credential
		err = a.sendValue(cmd.Context(), ask, keyFD, args.Name, severalLines(args.Kind), func(v sent) error {
			args.ValueLength, args.ValueDigest, args.PassphraseLength = v.Len(), v.Digest(), v.passphrase
			return a.do(cmd.Context(), api.PathCredentialAdd, v.proof, args, v.Value, &c)
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(a.out, "stored %s (%s)\n", escape(c.Name), escape(c.Kind))
		a.showRules(c)
		return nil
	}
	return cmd
}

func (a *app) showRules(c api.Credential) {
	label := "may"
	if c.Kind == "ssh-key" || c.Kind == "ssh-ca" {
		label = "public key"
	}
	for _, rule := range c.Rules {
		fmt.Fprintf(a.out, "  %s %s\n", label, escape(rule))
	}
}
