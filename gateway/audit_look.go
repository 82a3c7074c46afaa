package gateway

import (
	"os"
	"path/filepath"
	"strings"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// The gateway can't read its own log: bodies are sealed to readers. It can check the log's chain as anybody can, and read
// with an identity that somebody brings, for that one request.

// logFiles are where the log lies, and its public identity.
func (g *Gateway) logFiles() (dir string, pub []byte, err error) {
	if g.log.w.Load() == nil {
		return "", nil, api.Fail("vault_absent", "there is no log yet")
	}
	pub, err = os.ReadFile(filepath.Join(g.cfg.Home.Log(), "audit.pub"))
	return filepath.Join(g.cfg.Home.Log(), "audit"), pub, err
}

// opAuditVerify checks the log once. One look at a time: it reads every byte.
func (g *Gateway) opAuditVerify(r opRequest) (any, error) {
	if fault := decode(r.args, &struct{}{}); fault != nil {
		return nil, fault
	}
	if !g.looking.TryLock() {
		return nil, api.Fail("busy", "the log is being read already")
	}
	defer g.looking.Unlock()
	dir, pub, err := g.logFiles()
	if err != nil {
		return nil, err
	}
	rep, err := auditlog.Verify(os.DirFS(dir), pub, auditlog.VerifyOptions{Live: func() bool { return true }})
	if err != nil {
		return nil, err
	}
	anchor, _, _, err := g.db.Anchor(r.ctx)
	if err != nil {
		return nil, err
	}
	return api.Verified{Verdict: rep.Verdict, Kind: rep.Kind, Segment: rep.Segment, Seq: rep.Seq, Detail: rep.Detail, Records: uint64(rep.Records),
		Commits: uint64(rep.Commits), Fingerprint: rep.Fingerprint, Anchor: anchor, OpenIntents: rep.OpenIntents}, nil
}

// opAuditRead reads the log with the identity that came with the request, which is forgotten after it. The newest part is
// found by reading all.
func (g *Gateway) opAuditRead(r opRequest) (any, error) {
	defer clear(r.value)
	var a api.AuditReadArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	size, err := pageSize(a.Limit)
	if err != nil {
		return nil, err
	}
	if len(r.value) == 0 || len(r.value) > api.ProofLimit {
		return nil, api.Fail("proof_required", "the log is read with a reader's identity: AGE-SECRET-KEY-…")
	}
	if !g.looking.TryLock() {
		return nil, api.Fail("busy", "the log is being read already")
	}
	defer g.looking.Unlock()
	dir, pub, err := g.logFiles()
	if err != nil {
		return nil, err
	}
	var items []event.Item
	total, want := 0, strings.ToLower(a.Search)
	for rec, err := range auditlog.Read(os.DirFS(dir), pub, strings.TrimSpace(string(r.value))) {
		switch {
		case r.ctx.Err() != nil:
			return nil, r.ctx.Err()
		case err != nil:
			return nil, api.Fail("proof_wrong", "the log can't be read with this identity: "+escape(err.Error(), 256))
		case a.Before != 0 && rec.Seq >= a.Before:
			continue
		case want != "" && !strings.Contains(strings.ToLower(string(rec.Body)), want):
			continue
		}
		if run, _, _ := about(rec.Body); a.AgentRun != "" && run != a.AgentRun {
			continue
		}
		ev, err := event.Decode(rec.Body)
		if err != nil {
			continue // of a later version
		}
		total++
		if items = append(items, event.Item{Seq: rec.Seq, Time: rec.Time, Event: ev}); len(items) > 2*size {
			items = append(items[:0], items[len(items)-size:]...)
		}
	}
	if len(items) > size {
		items = items[len(items)-size:]
	}
	return api.AuditPage{Lines: timelineOf(items), More: total > len(items)}, nil
}
