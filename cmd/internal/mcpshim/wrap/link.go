package wrap

import (
	"context"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
)

// Link is a wrapper's connection to the gateway: *client.Server. Its errors are *api.Error. What was made on it ends with it.
type Link interface {
	Plan(context.Context, api.ServerPlan) (api.ServerPlanned, error)
	Started(ctx context.Context, pid int) (api.ServerState, error)
	Catalog(context.Context, api.ServerCatalog) (api.ServerState, error)
	Call(context.Context, api.ActionRequest) (*client.Forwarded, api.Action, error)
	Report(context.Context, api.ServerReport) error
	End(context.Context, api.ServerEnd) (api.ServerEnded, error)
	Socket() string
	Done() <-chan struct{}
	Close() error
}

// EnvSocket is the variable in which a server finds the path of agent.sock. It is a path and no more: who may do what is
// decided by which process speaks.
const EnvSocket = "SALLYPORT_AGENT_SOCK"
