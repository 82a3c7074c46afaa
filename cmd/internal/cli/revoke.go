package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
)

// silence is how long a revocation may take before something else must help.
const silence = 2 * time.Second

func (a *app) runRevoke() *cobra.Command {
	var asJSON, force bool
	cmd := &cobra.Command{
		Use:   "revoke RUN",
		Short: "End a run's authority, now and for good",
		Long: `End a run's authority, now and for good. After it returned no write of a request of
that run begins; what had already left is listed, as it ended. Needs no proof.

With --force a gateway that gives no answer within two seconds is ended (SIGKILL): a dead
gateway lets nothing through, and at its next start every grant is void. The revocation
itself is then not recorded: revoke again once the gateway is up.`,
		Args: exactly("RUN"),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.Flags().BoolVar(&force, "force", false, "end the gateway if it gives no answer")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		r, err := a.revoke(cmd.Context(), words[0], force)
		if err != nil {
			return err
		}
		if asJSON {
			return a.document(r)
		}
		return a.showRevoked(r)
	}
	return cmd
}

// errSilent ends a wait that --force allows to be short.
var errSilent = errors.New("no answer")

// revoke asks for it, and with force ends a gateway that stays silent.
func (a *app) revoke(ctx context.Context, typed string, force bool) (r api.Revoked, err error) {
	asking := ctx
	if force {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeoutCause(ctx, silence, errSilent)
		defer cancel()
	} else {
		late := time.AfterFunc(silence, func() {
			a.say("sp: no answer from the gateway after %s\n  next: if it stays silent, `sp run revoke %s --force` ends it: a dead gateway lets nothing through", silence, escape(typed))
		})
		defer late.Stop()
	}
	id, err := a.runID(asking, typed)
	if err == nil {
		err = a.do(asking, api.PathRunRevoke, nil, api.IDArgs{ID: id}, nil, &r)
	}
	if !force || !errors.Is(context.Cause(asking), errSilent) && !silent(err) {
		return r, err
	}
	return r, a.endGateway(ctx)
}

// silent tells a gateway that is there and gives no answer from one that is not there.
func silent(err error) bool {
	var refused *api.Error
	return errors.As(err, &refused) && refused.Code == "gateway_unreachable" && refused.Reason != api.Lookup("gateway_unreachable").Reason
}

// endGateway makes the safe state. It is exit 1: what was asked for is not recorded.
func (a *app) endGateway(ctx context.Context) error {
	h, err := a.home()
	if err != nil {
		return err
	}
	pid, err := client.End(ctx, h)
	if err != nil {
		return &adviceError{fmt.Errorf("end the silent gateway: %w", err), "end it as its user or as root: a dead gateway lets nothing through"}
	}
	return &adviceError{fmt.Errorf("the gateway (pid %d) gave no answer and was ended: nothing is let through, and every grant is void; the revocation is not recorded yet", pid),
		"start it with `sp up`, then revoke again"}
}
