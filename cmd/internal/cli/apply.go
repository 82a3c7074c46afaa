package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
)

func (a *app) apply() *cobra.Command {
	var (
		args   api.ApplyArgs
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Set what a file says, under one proof",
		Long: `Set what FILE says (TOML; - is stdin), under one proof, and show what changed. What the
file does not name stays as it is. The gateway keeps it sealed in the vault:

  [settings]
  audit_mirror = "/mnt/other-disk/audit"   # a folder that gets a copy of the log; made
                                           # if it is not there
  recipients = ["age1pq1…"]                # who can read the log from now on, besides
                                           # the vault's recovery identity: age1pq1 only
  witness = ["https://witness.example witness.example+1a2b3c4d+BASE64"]`,
		Args: exactly("FILE"),
	}
	ask := a.asker(cmd)
	cmd.Flags().BoolVar(&args.DryRun, "dry-run", false, "only show what would change")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array of the changes")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		if words[0] == "-" && ask.fd == 0 {
			return usage("stdin holds the file: give the passphrase on another descriptor")
		}
		if err := ask.early(); err != nil {
			return err
		}
		file, err := a.readInput(words[0])
		if err != nil {
			return err
		}
		proof, err := ask.proof(cmd.Context())
		if err != nil {
			return err
		}
		salted := client.Salt(file)
		args.ValueLength, args.ValueDigest = salted.Len(), salted.Digest()
		var changes []api.Change
		if err := a.do(cmd.Context(), api.PathApply, proof, args, salted, &changes); err != nil {
			return err
		}
		if asJSON {
			return a.document(changes)
		}
		a.showChanges(changes, args.DryRun)
		return nil
	}
	return cmd
}

func (a *app) showChanges(changes []api.Change, dry bool) {
	word := "set"
	if dry {
		word = "would set"
	}
	for _, c := range changes {
		fmt.Fprintf(a.out, "%s %s\n  from %s\n  to   %s\n", word, escape(c.Setting), escape(c.Old), escape(c.New))
	}
	if len(changes) == 0 {
		fmt.Fprintln(a.out, "nothing to change: all is as the file says")
	}
}
