package client

import (
	"context"
	"errors"
	"net"

	"sallyport/gateway/home"
	"sallyport/gateway/peer"
)

// Serving pins the processes that listen at the agents' door, as the kernel tells of each: at most one for each place where it
// may be. The caller closes them. A place with a socket that no gateway may have there counts as empty, as it does for whoever
// speaks; an error says that somebody listens and can't be told.
func Serving(ctx context.Context, h home.Home) (all []*peer.Listener, err error) {
	for _, path := range h.AgentSockets() {
		l, err := listenerAt(ctx, path)
		switch {
		case err == nil:
			all = append(all, l)
		case absent(err) || errors.Is(err, errNotOurs) || errors.Is(err, home.ErrNotPrivate):
		default:
			for _, l := range all {
				l.Close()
			}
			return nil, err
		}
	}
	return all, nil
}

func listenerAt(ctx context.Context, path string) (*peer.Listener, error) {
	conn, err := dialDoor(ctx, path)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return peer.ListenerOf(conn.(*net.UnixConn))
}
