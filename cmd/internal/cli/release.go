package cli

import (
	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

func (a *app) vault() *cobra.Command {
	return group("vault", "The vault itself", a.vaultSlots(), a.vaultSlot(), a.vaultPassphrase(), a.vaultRekey(), a.vaultRelease())
}

func (a *app) vaultRelease() *cobra.Command {
	var (
		args     api.ReleaseArgs
		recovery bool
	)
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Take the vault out of quarantine, by your word, which is recorded",
		Long: `Take the vault out of quarantine, by your word, which is recorded. Vault and audit
log are compared anew; where they still contradict each other it is said how, and the
vault stays quarantined. Put the newer copy back under a stopped gateway, or go on with
both as they are: --accept-log-head. Where it was the vault that was put back, look at
sp secret ls and sp host ls afterwards: what was removed may be there again.`,
		Args: exactly(),
	}
	ask := a.asker(cmd)
	ask.need = needSome
	cmd.Flags().BoolVar(&args.AcceptLogHead, "accept-log-head", false, "one of the two is an older copy, or audit/ and audit.pub are gone: go on with them as they are")
	recoveryFlag(cmd, &recovery)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		proof, err := ask.slot(cmd.Context(), recovery)
		if err != nil {
			return err
		}
		if err := a.turn(cmd.Context(), api.PathRelease, proof, args); err != nil || !args.AcceptLogHead {
			return err
		}
		a.say("sp: where the log was gone or broken, a new one has begun\n  next: `sp audit verify`; a new one's key wants `sp audit pin`, and its reviewers must be told")
		return nil
	}
	return cmd
}
