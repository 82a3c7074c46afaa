package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

func (a *app) grants() *cobra.Command {
	return group("grant", "What runs may do now: one approval's authority each", a.grantList(),
		a.partRevoke("revoke GRANT", "End one grant, and the calls that are under way by it", "GRANT", api.PathGrantRevoke))
}

func (a *app) epochs() *cobra.Command {
	return group("epoch", "The process instances that act in runs",
		a.partRevoke("revoke EPOCH", "End one epoch: its process stays refused, the run's others keep what they have", "EPOCH", api.PathEpochRevoke))
}

func (a *app) grantList() *cobra.Command {
	return listing(a, "ls", "List the live grants", api.PathGrantList,
		[]string{"ID", "TOOLS", "CREDENTIALS", "ENDS", "RUN", "EPOCH", "ISSUED"},
		func(g api.Grant) []string {
			return []string{g.ID, strings.Join(g.ToolScope, ","), strings.Join(g.CredentialScope, ","), g.ExpiresWhen, g.AgentRun, g.ExecutionEpoch, stamp(g.IssuedAt)}
		})
}

// partRevoke ends part of a run's authority. It needs no proof: losing authority is always allowed.
func (a *app) partRevoke(use, short, what, path string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Long:  short + ".\nAfter it returned no write of a request by it begins; what had already left is listed, as it ended.\nNeeds no proof.",
		Args:  exactly(what),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		var r api.Revoked
		if err := a.do(cmd.Context(), path, nil, api.IDArgs{ID: words[0]}, nil, &r); err != nil {
			return err
		}
		if asJSON {
			return a.document(r)
		}
		return a.showRevoked(r)
	}
	return cmd
}
