package cli

import (
	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

func (a *app) actionCancel() *cobra.Command {
	return a.onAction(&cobra.Command{
		Use:   "cancel ID",
		Short: "Call one action back",
		Long: `Call one action back. What waits for its card or has not been sent is dropped; what was
sent is stopped as far as it can be, and may have taken effect all the same: the outcome
says what is known. The remote job of an accepted action is asked to stop, by the request
that the credential's rules name. Of any other action that has ended nothing changes.`,
		Args: exactly("ID"),
	}, api.PathActionCancel)
}
