package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

// What starts the ids of grants and epochs.
const (
	grantPrefix = "gr_"
	epochPrefix = "ep_"
)

func (a *app) grants() *cobra.Command {
	return group("grant", "What runs may do now: one approval's authority each", a.grantList(),
		a.partRevoke("revoke GRANT", "End one grant, and the calls that are under way by it", "GRANT", api.PathGrantRevoke, a.grantID))
}

func (a *app) epochs() *cobra.Command {
	return group("epoch", "The process instances that act in runs",
		a.partRevoke("revoke EPOCH", "End one epoch: its process stays refused, the run's others keep what they have", "EPOCH", api.PathEpochRevoke, a.epochID))
}

func (a *app) grantList() *cobra.Command {
	return listing(a, "ls", "List the live grants", api.PathGrantList,
		[]column{{"ID", ids}, {"TOOLS", words}, {"CREDENTIALS", words}, {"ENDS", words}, {"RUN", ids}, {"EPOCH", ids}, {"ISSUED", times}},
		func(g api.Grant) []string {
			return []string{g.ID, strings.Join(g.ToolScope, ","), strings.Join(g.CredentialScope, ","), g.ExpiresWhen, g.AgentRun, g.ExecutionEpoch, stamp(g.IssuedAt)}
		})
}

// grantID and epochID complete what the operator typed.
func (a *app) grantID(ctx context.Context, typed string) (string, error) {
	return complete(ctx, a, grantPrefix, typed, api.PathGrantList, func(g api.Grant) string { return g.ID })
}

func (a *app) epochID(ctx context.Context, typed string) (string, error) {
	if whole(epochPrefix, typed) {
		return typed, nil
	}
	all, err := fetch[api.Run](ctx, a, api.PathRunList, nil)
	if err != nil {
		return "", err
	}
	var ids []string
	for _, r := range all {
		for _, e := range r.Epochs {
			ids = append(ids, e.ID)
		}
	}
	return resolve(epochPrefix, typed, ids)
}

// partRevoke ends part of a run's authority. It needs no proof: losing authority is always allowed.
func (a *app) partRevoke(use, short, what, path string, id func(context.Context, string) (string, error)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Long:  short + ".\nAfter it returned no write of a request by it begins; what had already left is listed, as it ended.\nNeeds no proof.",
		Args:  exactly(what),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		whole, err := id(cmd.Context(), words[0])
		if err != nil {
			return err
		}
		var r api.Revoked
		if err := a.do(cmd.Context(), path, nil, api.IDArgs{ID: whole}, nil, &r); err != nil {
			return err
		}
		if asJSON {
			return a.document(r)
		}
		return a.showRevoked(r)
	}
	return cmd
}
