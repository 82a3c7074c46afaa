package cli

import (
	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

func (a *app) vault() *cobra.Command {
	return group("vault", "The vault itself", a.vaultRelease())
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
log are compared anew; where they still contradict each other the vault stays
quarantined, unless --accept-log-head says that the log is right as it is.`,
		Args: exactly(),
	}
	ask := a.asker(cmd)
	ask.need = needSome
	cmd.Flags().BoolVar(&args.AcceptLogHead, "accept-log-head", false, "the log ends before what the vault has seen, or is gone: go on with it as it is")
	recoveryFlag(cmd, &recovery)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		proof, err := ask.slot(cmd.Context(), recovery)
		if err != nil {
			return err
		}
		return a.turn(cmd.Context(), api.PathRelease, proof, args)
	}
	return cmd
}
