package gateway

import (
	"fmt"
	"path"
	"strings"

	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// chain is where an epoch's process stands among others: from it up to the leader of its session, as evidence. key names
// the session: its number stays taken as long as a process of it lives.
type chain struct {
	key   string
	text  string
	shown []api.Agent
}

// chainLimit is how many processes of a chain are kept; the session's leader is always among them.
const chainLimit = 12

// chainOf pins what stands above a process and lets go of it again. What can't be seen is left out: it is attribution,
// and no decision is by it.
func chainOf(p *peer.Process) chain {
	all := []peer.Facts{p.Facts()}
	above, err := p.Ancestors()
	for _, x := range above {
		if err == nil {
			all = append(all, x.Facts())
		}
		x.Close()
	}
	if n := len(all); n > chainLimit {
		all = append(all[:chainLimit-1:chainLimit-1], all[n-1])
	}
	f := all[0]
	c := chain{key: fmt.Sprintf("session-%d", f.SID)}
	if f.SID == 0 { // its leader is not visible here
		c.key = fmt.Sprintf("process-%d", f.PID)
	}
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = fmt.Sprintf("%s (pid %d)", escape(path.Base(strings.TrimSuffix(f.Exe, " (deleted)")), 32), f.PID)
		c.shown = append(c.shown, agent(f))
	}
	c.text = strings.Join(names, " < ")
	return c
}
