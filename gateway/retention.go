package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"sallyport/gateway/api"
	"sallyport/gateway/store"
	"sallyport/vault"
)

// What is kept of actions and of what the log was told, and for how long: results and files for a day, rows for thirty,
// unless the operator says otherwise. The log keeps all for ever, and a write that nobody knows the end of keeps its row until it is resolved.

// retention are those times, in an apply file as TOML strings like "24h".
type retention struct {
	Results string `toml:"results" json:"results,omitempty"`
	Files   string `toml:"files" json:"files,omitempty"`
	Rows    string `toml:"rows" json:"rows,omitempty"`
}

// defaultRetention stands where the operator said nothing.
var defaultRetention = retention{Results: "24h", Files: "24h", Rows: "720h"}

const (
	leastRetention = 15 * time.Minute // longer than any call, whose file is being written
	mostRetention  = 10 * 365 * 24 * time.Hour
	sweepEvery     = 10 * time.Minute
)

func (r retention) orDefault() retention {
	for _, f := range []struct {
		is *string
		or string
	}{{&r.Results, defaultRetention.Results}, {&r.Files, defaultRetention.Files}, {&r.Rows, defaultRetention.Rows}} {
		if *f.is == "" {
			*f.is = f.or
		}
	}
	return r
}

// String is the table as TOML.
func (r retention) String() string {
	r = r.orDefault()
	return fmt.Sprintf("{results = %q, files = %q, rows = %q}", r.Results, r.Files, r.Rows)
}

// times are the three as durations; the error names the one that is none.
func (r retention) times() (results, files, rows time.Duration, err error) {
	r = r.orDefault()
	for _, f := range []struct {
		name, text string
		to         *time.Duration
	}{{"results", r.Results, &results}, {"files", r.Files, &files}, {"rows", r.Rows, &rows}} {
		if *f.to, err = time.ParseDuration(f.text); err != nil || *f.to < leastRetention || *f.to > mostRetention {
			return 0, 0, 0, api.Fail("invalid_request", `retention.`+f.name+`: a time like "24h", from 15m to ten years`)
		}
	}
	if rows < results {
		return 0, 0, 0, api.Fail("invalid_request", "retention.rows: at least as long as results")
	}
	return results, files, rows, nil
}

// sweepOften lets go of what was kept long enough, while the gateway lives.
func (g *Gateway) sweepOften(ctx context.Context) {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			g.complain("let go of old actions", g.sweep(ctx, now().Wall))
		}
	}
}

// sweep lets go of what was kept long enough at t. The settings are sealed: a locked vault keeps what it has.
func (g *Gateway) sweep(ctx context.Context, t time.Time) error {
	g.authority.Lock()
	defer g.authority.Unlock()
	if g.vault.State() != vault.Ready {
		return nil
	}
	s, err := readSettings(g.vault.Snapshot())
	if err != nil {
		return err
	}
	results, files, rows, err := s.Retention.times()
	if err != nil {
		return err
	}
	err = g.db.Change(ctx, func(tx *store.Tx) error {
		return errors.Join(tx.Forget(t.Add(-results), t.Add(-rows)), tx.ForgetTold(t.Add(-rows)))
	})
	g.acts.forget(t.Add(-results))
	return errors.Join(err, sweepFiles(g.cfg.Home.Files(), t.Add(-min(files, results)))) // without its result's key a file is noise
}

// forgotten says that rows of a run which began at opened may be gone; "" if not. A locked vault hides what the operator said.
func (g *Gateway) forgotten(opened, t time.Time) string {
	var s settings
	if snap := g.vault.Snapshot(); snap != nil {
		var err error
		if s, err = readSettings(snap); err != nil {
			return ""
		}
	}
	_, _, rows, err := s.Retention.times()
	if from := t.Add(-rows); err == nil && !opened.IsZero() && opened.Before(from) {
		return "rows from before " + from.UTC().Format(time.DateOnly) + " are let go: read the log with --identity"
	}
	return ""
}

// sweepFiles removes the files last written before t.
func sweepFiles(dir string, t time.Time) error {
	all, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range all {
		if i, ierr := f.Info(); ierr == nil && i.ModTime().Before(t) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, f.Name())))
		}
	}
	return err
}

// forget lets go of the results in memory of actions that ended before t.
func (s *actions) forget(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.ended {
		if x := s.byID[id]; x.doc.FinishedAt.Before(t) {
			s.bytes -= len(x.doc.Result)
			x.doc.Result, x.kept.File = nil, nil
		}
	}
}
