package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

func (a *app) mute() *cobra.Command {
	return &cobra.Command{
		Use:   "mute KEY",
		Short: "Refuse the further questions of a session of processes",
		Long: `Refuse the questions of a session of processes: those that wait without a card, and every later one, until
` + "`sp unmute`" + `. Cards that are shown stay, and so does what was granted. KEY stands in ` + "`sp approvals`" + `.`,
		Args: exactly("KEY"),
		RunE: func(cmd *cobra.Command, words []string) error {
			var c api.Chain
			if err := a.do(cmd.Context(), api.PathApprovalMute, nil, api.MuteArgs{Key: words[0]}, nil, &c); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "muted %s\n", escape(c.Text))
			return nil
		},
	}
}

func (a *app) unmute() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unmute KEY",
		Short: "Let a muted session of processes ask again",
		Args:  exactly("KEY"),
	}
	ask := a.asker(cmd)
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		proof, err := ask.proof(cmd.Context())
		if err != nil {
			return err
		}
		var c api.Chain
		if err := a.do(cmd.Context(), api.PathApprovalUnmute, proof, api.MuteArgs{Key: words[0]}, nil, &c); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "unmuted %s; %d questions were refused meanwhile\n", escape(c.Text), c.Refused)
		return nil
	}
	return cmd
}
