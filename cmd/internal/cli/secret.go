package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
)

// fileLimit bounds what a flag reads from a file (certificates, host keys, pins, identities), in bytes.
const fileLimit = 256 << 10

func (a *app) secret() *cobra.Command {
	return group("secret", "The credentials in the vault", a.secretAdd(), a.secretList(), a.secretRemove(), a.secretPresets(), a.secretTest())
}

func (a *app) secretAdd() *cobra.Command {
	var (
		args  api.CredentialArgs
		ca    string
		keyFD int
	)
	cmd := &cobra.Command{
		Use:   "add NAME {--kind KIND | --preset PRESET}",
		Short: "Store a credential and say what it may be used for",
		Long: `Store a credential and say what it may be used for. The value is asked for at the
terminal, or read from stdin where that is no terminal (to its end, one trailing
newline dropped). It can't be read back.
` + httpKinds,
		Example: `  sp secret add github --kind bearer --allow 'GET,POST https://api.github.com/repos/**' < token
  sp secret add github --preset github < token
  sp secret add deploy-key --kind ssh-key < id_ed25519`,
		Args: exactly("NAME"),
	}
	ask := a.asker(cmd)
	f, r := cmd.Flags(), &args.Rules
	f.StringVar(&args.Kind, "kind", "", "how the value is sent: see above")
	f.StringVar(&args.Account, "account", "", "`LABEL` of the account this belongs to, shown on cards")
	f.StringVar(&args.Confirm, "confirm", "", "never: quiet inside a grant (default); click: a person approves each use")
	httpFlags(cmd, r)
	f.StringVar(&args.Preset, "preset", "", "fill in what is known of a service: its `NAME`, see \"sp secret presets\"")
	f.StringVar(&args.Site, "site", "", "with --preset: the service's `HOST`, where it is not the usual one")
	f.StringVar(&ca, "ca", "", "trust the certificates in `FILE` (PEM) for this credential's origins")
	f.IntVar(&keyFD, "key-passphrase-fd", -1, "ssh-key: read the key file's passphrase from descriptor `N`")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		args.Name = words[0]
		if args.Kind == "" && args.Preset == "" {
			return usage("--kind is missing, or --preset")
		}
		if args.Site != "" && args.Preset == "" {
			return usage("--site belongs to --preset")
		}
		if keyFD >= 0 && args.Kind != "ssh-key" {
			return usage("--key-passphrase-fd belongs to --kind ssh-key")
		}
		if !a.inTTY && (ask.fd == 0 || keyFD == 0) {
			return usage("stdin holds the value: give the passphrase on another descriptor")
		}
		if ca != "" {
			pem, err := readFile(ca)
			if err != nil {
				return err
			}
			r.CA = string(pem)
		}
		return a.addSecret(cmd.Context(), ask, args, keyFD)
	}
	return cmd
}

func (a *app) addSecret(ctx context.Context, ask *asker, args api.CredentialArgs, keyPassphrase int) error {
	if err := ask.early(); err != nil {
		return err
	}
	var phrase []byte
	if keyPassphrase >= 0 {
		var err error
		if phrase, err = a.readFD(keyPassphrase); err != nil {
			return err
		}
		defer clear(phrase)
	}
	if a.inTTY {
		if err := ask.reach(ctx); err != nil {
			return err
		}
	}
	value, err := a.value(ctx, args.Name+" (value): ", slices.Contains([]string{"ssh-key", "github-app", "mtls"}, args.Kind))
	if err != nil {
		return err
	}
	defer clear(value)
	args.PassphraseLength = len(phrase)
	all := slices.Concat(value, phrase)
	defer clear(all)
	salted := client.Salt(all)
	args.ValueLength, args.ValueDigest = salted.Len(), salted.Digest()

	proof, err := ask.proof(ctx)
	if err != nil {
		return err
	}
	var c api.Credential
	if err := a.do(ctx, api.PathCredentialAdd, proof, args, salted, &c); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "stored %s (%s)\n", escape(c.Name), escape(c.Kind))
	label := "may"
	if c.Kind == "ssh-key" {
		label = "public key"
	}
	for _, rule := range c.Rules {
		fmt.Fprintf(a.out, "  %s %s\n", label, escape(rule))
	}
	return nil
}

func (a *app) secretList() *cobra.Command {
	return listing(a, "ls", "List the credentials, without their values", api.PathCredentialList,
		[]column{{"NAME", vital}, {"KIND", fixed}, {"ACCOUNT", words}, {"CONFIRM", fixed}, {"SCRUB", fixed}, {"VERSION", fixed}, {"RULES", vital}},
		func(c api.Credential) []string {
			return []string{c.Name, c.Kind, c.Account, c.Confirm, c.Scrub, strconv.FormatUint(c.Version, 10), strings.Join(c.Rules, "; ")}
		})
}

func (a *app) secretRemove() *cobra.Command {
	return a.remove("credential", api.PathCredentialRemove)
}

// remove is `rm NAME` of a noun.
func (a *app) remove(noun, path string) *cobra.Command {
	cmd := &cobra.Command{Use: "rm NAME", Short: "Remove a " + noun, Args: exactly("NAME")}
	ask := a.asker(cmd)
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		proof, err := ask.proof(cmd.Context())
		if err != nil {
			return err
		}
		if err := a.do(cmd.Context(), path, proof, api.NameArgs{Name: words[0]}, nil, nil); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "removed %s\n", escape(words[0]))
		return nil
	}
	return cmd
}

// readFile reads a small file that a flag names.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usage("%s", err)
	}
	defer f.Close()
	return readSmall(f, path)
}

// readInput is readFile, where - is stdin.
func (a *app) readInput(path string) ([]byte, error) {
	if path == "-" {
		return readSmall(a.in, "stdin")
	}
	return readFile(path)
}

func readSmall(r io.Reader, what string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, fileLimit+1))
	switch {
	case err != nil:
		return nil, usage("%s", err)
	case len(b) > fileLimit:
		return nil, usage("%s holds more than %d bytes", what, fileLimit)
	}
	return b, nil
}
