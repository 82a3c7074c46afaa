package gateway

import (
	"context"
	"time"

	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// A script that begins with `#!/usr/bin/env node` executes twice: its process may become another program while it is looked
// at. That is no replacement yet, since nothing knew it before.
const (
	execLooks = 100
	execPause = 10 * time.Millisecond
)

// changedMeanwhile is why a process is refused that executed another program while it was looked at.
const changedMeanwhile = "is not what it was any more"

// settledChild is child, once the process stays what it is.
func (a *agentConn) settledChild(ctx context.Context, who caller, pid int) (p *peer.Process, stdin string, fault *api.Error) {
	for range execLooks {
		p, stdin, fault = a.child(who, pid)
		if fault == nil || fault.Reason != childReason(changedMeanwhile) {
			return p, stdin, fault
		}
		select {
		case <-ctx.Done():
			return p, stdin, fault
		case <-time.After(execPause):
		}
	}
	return p, stdin, fault
}

func childReason(why string) string { return "the process that server.started names " + why }
