package gateway

import (
	"path/filepath"
	"slices"
	"strings"

	"sallyport/gateway/api"
)

// supervised lists the servers whose wrappers are connected, by label and run.
func (g *Gateway) supervised() []*server {
	g.servers.mu.Lock()
	defer g.servers.mu.Unlock()
	out := make([]*server, 0, len(g.servers.by))
	for _, s := range g.servers.by {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *server) int {
		return strings.Compare(a.label+"\x00"+a.run.id, b.label+"\x00"+b.run.id)
	})
	return out
}

func (g *Gateway) opServerList(r opRequest) (any, error) {
	out := []api.Server{}
	for _, s := range g.supervised() {
		x := *g.shownServer(s, nil)
		x.Record, x.Tools, x.Diff = nil, nil, nil // `server show` has them
		out = append(out, x)
	}
	return out, nil
}

// opServerShow shows the server that an id names: its label, its epoch, or its run if that has one server alone.
func (g *Gateway) opServerShow(r opRequest) (any, error) {
	var a api.IDArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	var found []*api.Server
	for _, s := range g.supervised() {
		x := g.shownServer(s, nil)
		if a.ID != "" && (a.ID == x.ServerLabel || a.ID == x.ExecutionEpoch || a.ID == x.AgentRun) {
			found = append(found, x)
		}
	}
	switch len(found) {
	case 0:
		return nil, api.Fail("not_found", "no server of this label or epoch is supervised now; list them with `sp server ls`")
	case 1:
		return found[0], nil
	}
	var epochs []string
	for _, x := range found {
		epochs = append(epochs, x.ExecutionEpoch)
	}
	return nil, api.Fail("invalid_request", "several servers have it; name one by its epoch: "+strings.Join(epochs, ", "))
}

// opServerDigest measures a command as a plan would, and runs nothing.
func (g *Gateway) opServerDigest(r opRequest) (any, error) {
	var a api.DigestArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	if len(a.LaunchCommand) == 0 || a.LaunchCommand[0] == "" || !filepath.IsAbs(a.WorkingDirectory) {
		return nil, api.Fail("invalid_request", "launchCommand: a program and its arguments; workingDirectory: an absolute path")
	}
	rec, err := g.servers.measurer.Plan(a.LaunchCommand, a.WorkingDirectory, a.Environment)
	if err != nil {
		return nil, api.Fail("invalid_request", escape(err.Error(), 512))
	}
	return api.Digest{Sums: rec.Sums(), TreeDigest: rec.Code.TreeDigest, Unpinned: rec.Unpinned, Record: encode(rec)}, nil
}
