package drill

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

func args(marker string) map[string]string { return map[string]string{"marker": marker} }

// refused judges the refusal of a call that was prepared for another epoch.
func (c *rebuild) refused(a answer, before, now event.ServerStarted, writes int) {
	c.p.Judge(a.Code == "authorization_stale" && a.Approved == before.Epoch && a.Current == now.Epoch,
		"Is a call that was prepared before refused, and told why?", "%s, approvedEpoch %s, currentEpoch %s, retry: %s", orNone(a.Code), orNone(a.Approved), orNone(a.Current), a.Retry)
	c.p.Judge(len(c.wrote()) == writes, "Did it reach the new code?", "%d writes before, %d now", writes, len(c.wrote()))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// replaced waits for the next start. In the broken variant none comes, and the old one stands for it.
func (c *rebuild) replaced(ctx context.Context, n int) (event.ServerStarted, error) {
	if c.s.o.spare {
		return c.started(ctx, n-1)
	}
	e, err := c.started(ctx, n)
	if err != nil {
		return e, err
	}
	return e, c.s.Until(ctx, "the new process's tools", func() (bool, error) {
		items, err := c.s.Records()
		for _, i := range items {
			if m, ok := i.Event.(event.ServerMeasured); ok && m.Epoch == e.Epoch {
				return true, err
			}
		}
		return false, err
	})
}

// kill ends the server's process hard.
func (c *rebuild) kill(e event.ServerStarted) error {
	if c.s.o.spare {
		return nil
	}
	if err := syscall.Kill(e.ProcessID, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill server: %w", err)
	}
	return nil
}

// first brings the server to where it has an approval and has used it.
func (c *rebuild) first(ctx context.Context) (event.ServerStarted, error) {
	e, err := c.started(ctx, 1)
	if err != nil {
		return e, err
	}
	a, _, err := c.approved(ctx, "adjust", args("first"))
	if err == nil && a.Revision != "A" {
		err = fmt.Errorf("the approved call came to %s", orNone(a.Code))
	}
	return e, err
}

func (c *rebuild) sixSteps(ctx context.Context) error {
	reload := "restart"
	if c.s.o.spare {
		reload = "none"
	}
	if err := c.start(ctx, reload); err != nil {
		return err
	}
	e, err := c.started(ctx, 1)
	if err != nil {
		return err
	}
	x := e.Execution
	c.p.Judge(x.EntryDigest != "" && e.Epoch != "" && e.ProcessID > 0, "1. Which code was started?",
		"%s in %s, entry %s, tree %s, runtime %s, pid %d, epoch %s", strings.Join(x.LaunchCommand, " "), x.WorkingDirectory, x.EntryDigest, orNone(x.TreeDigest), orNone(x.Runtime), e.ProcessID, e.Epoch)
	c.p.Tell("1. What does it offer?", "%s", strings.Join(c.a.Tools, ", "))
	a, card, err := c.approved(ctx, "adjust", args("marker-A"))
	if err != nil {
		return err
	}
	c.p.Judge(card.ID != "" && card.ExecutionEpoch == e.Epoch, "1. What was approved, for whom?", "%s of %s, run %s, epoch %s, approval %s", card.Tool, card.Target, card.AgentRun, card.ExecutionEpoch, card.ID)
	calls, err := c.calls("adjust")
	if err != nil {
		return err
	}
	ok := a.Revision == "A" && len(calls) == 1 && calls[0].Epoch == e.Epoch && calls[0].Grant != "" && len(c.wrote()) == 1
	c.p.Judge(ok, "2. Does the log name the epoch and the grant of the write?", "revision=%s, %s", orNone(a.Revision), shownCalls(calls))

	if err := c.build(); err != nil {
		return err
	}
	c.p.Tell("3. What was built?", "revision B at the same path: the same tool, another handler, one more required field")
	now, err := c.replaced(ctx, 2)
	if err != nil {
		return err
	}
	c.p.Judge(now.Epoch != e.Epoch && now.Cause == "reload", "4. Was the replacement observed?", "pid %d, epoch %s (cause %s) after pid %d, epoch %s; entry %s", now.ProcessID, now.Epoch, now.Cause, e.ProcessID, e.Epoch, now.Execution.EntryDigest)
	if a, err = c.call(ctx, "adjust", args("old-shape")); err != nil {
		return err
	}
	c.p.Judge(a.Code == "authorization_stale" && a.Approved == e.Epoch && a.Current == now.Epoch, "5. Is the call of before refused, because the epoch changed?",
		"%s: %s; approvedEpoch %s, currentEpoch %s; retry: %s", orNone(a.Code), a.Reason, orNone(a.Approved), orNone(a.Current), a.Retry)
	c.p.Judge(len(c.wrote()) == 1, "5. Did it reach the new code?", "%d write in the ledger", len(c.wrote()))

	if _, err := c.list(ctx); err != nil {
		return err
	}
	b := args("marker-B")
	b["reason"] = "drill"
	a, card, err = c.approved(ctx, "adjust", b)
	if err != nil {
		return err
	}
	if calls, err = c.calls("adjust"); err != nil {
		return err
	}
	ok = a.Revision == "B" && len(calls) == 2 && calls[1].Epoch == now.Epoch && calls[1].Grant != calls[0].Grant && card.ID != ""
	c.p.Judge(ok, "6. Does the log name epoch B and a new grant after a new approval?", "revision=%s, approval %s, %s", orNone(a.Revision), orNone(card.ID), shownCalls(calls))
	c.p.Judge(len(c.wrote()) == 2, "6. How many writes happened?", "%s", strings.Join(c.wrote(), "; "))
	return nil
}

func shownCalls(calls []event.ToolCalled) string {
	var out []string
	for _, x := range calls {
		out = append(out, fmt.Sprintf("action %s: run %s, epoch %s, grant %s, catalog %s", x.Action, x.Run, x.Epoch, x.Grant, x.Catalog))
	}
	return strings.Join(out, "; ")
}

func (c *rebuild) oldProcess(ctx context.Context) error {
	if err := c.start(ctx, "none"); err != nil {
		return err
	}
	e, err := c.first(ctx)
	if err != nil {
		return err
	}
	if err := c.build(); err != nil {
		return err
	}
	var changed event.ArtifactChanged
	err = c.s.Until(ctx, "the changed file", func() (bool, error) {
		items, err := c.s.Records()
		for _, i := range items {
			if x, ok := i.Event.(event.ArtifactChanged); ok && x.ServerLabel == c.label {
				changed = x
			}
		}
		return changed.Epoch != "", err
	})
	if err != nil {
		return err
	}
	c.p.Judge(changed.ProcessID == e.ProcessID && changed.Epoch == e.Epoch, "Is it said that files changed and the process did not?",
		"build changed: %s; running process unchanged: pid=%d epoch=%s", strings.Join(changed.Changed, ", "), changed.ProcessID, changed.Epoch)
	a, err := c.call(ctx, "adjust", args("after-build"))
	if err != nil {
		return err
	}
	calls, err := c.calls("adjust")
	if err != nil {
		return err
	}
	c.p.Judge(a.Revision == "A", "Which code answered?", "revision=%s", orNone(a.Revision))
	n := len(calls)
	c.p.Judge(n == 2 && calls[1].ArtifactDrift && !calls[0].ArtifactDrift && calls[1].Epoch == e.Epoch, "Does the log tell this call from the one before the build?", "%s", drifts(calls))
	return nil
}

func drifts(calls []event.ToolCalled) string {
	var out []string
	for _, x := range calls {
		out = append(out, fmt.Sprintf("action %s: epoch %s, artifactDrift %t", x.Action, x.Epoch, x.ArtifactDrift))
	}
	return strings.Join(out, "; ")
}

func (c *rebuild) sameList(ctx context.Context) error {
	if err := c.start(ctx, "restart"); err != nil {
		return err
	}
	e, err := c.first(ctx)
	if err != nil {
		return err
	}
	if err := c.kill(e); err != nil {
		return err
	}
	now, err := c.replaced(ctx, 2)
	if err != nil {
		return err
	}
	c.p.Judge(now.Epoch != e.Epoch, "Is it a new epoch?", "%s after %s, cause %s", now.Epoch, e.Epoch, now.Cause)
	c.p.Judge(now.Execution.EntryDigest == e.Execution.EntryDigest, "With the same bytes?", "entry %s, then %s", e.Execution.EntryDigest, now.Execution.EntryDigest)
	tools, err := c.list(ctx)
	if err != nil {
		return err
	}
	c.p.Judge(strings.Join(tools, " ") == strings.Join(c.a.Tools, " "), "With the same tools?", "%s", strings.Join(tools, ", "))
	a, err := c.call(ctx, "adjust", args("again"))
	if err != nil {
		return err
	}
	c.refused(a, e, now, 1)
	return nil
}

func (c *rebuild) ignored(ctx context.Context) error {
	if err := c.start(ctx, "none"); err != nil {
		return err
	}
	for _, tool := range []string{"publish", "grow"} {
		a, _, err := c.approved(ctx, tool, args("first"))
		if err == nil && a.Code != "" {
			err = fmt.Errorf("the approved call of %s came to %s", tool, a.Code)
		}
		if err != nil {
			return err
		}
	}
	var changed event.CatalogChanged
	err := c.s.Until(ctx, "the new catalog", func() (bool, error) {
		items, err := c.s.Records()
		for _, i := range items {
			if x, ok := i.Event.(event.CatalogChanged); ok && x.ServerLabel == c.label && x.Old != "" {
				changed = x
			}
		}
		return changed.Epoch != "", err
	})
	if err != nil {
		return err
	}
	c.p.Judge(len(changed.Contract) == 1 && changed.Contract[0] == "publish", "Was the change of the contract seen?", "revision %s after %s; contract of %s: %s",
		changed.Catalog, changed.Old, strings.Join(changed.Contract, ", "), strings.Join(changed.Diff, "; "))
	a, err := c.call(ctx, "publish", args("old-shape"))
	if err != nil {
		return err
	}
	c.p.Judge(a.Code == "catalog_stale" && a.Next == api.NextRefresh, "Is a call of the old shape refused, and told why?", "%s: %s; retry: %s", orNone(a.Code), a.Reason, a.Retry)
	c.p.Judge(len(c.wrote()) == 1, "Did it reach the server?", "%d write in the ledger", len(c.wrote()))
	if _, err := c.list(ctx); err != nil {
		return err
	}
	if a, err = c.call(ctx, "publish", args("new-list")); err != nil {
		return err
	}
	c.p.Judge(a.Code == "not_authorized" || a.Code == "authorization_stale", "Once the list is fetched, does the changed tool want a new approval?", "%s", orNone(a.Code))
	return nil
}

func (c *rebuild) inFlight(ctx context.Context) error {
	if err := c.start(ctx, "restart"); err != nil {
		return err
	}
	e, err := c.started(ctx, 1)
	if err != nil {
		return err
	}
	if _, err := c.call(ctx, "hold", args("in-flight")); err != nil {
		return err
	}
	card, err := c.s.Card(ctx, "hold", c.label)
	if err != nil {
		return err
	}
	if err := c.s.Approve(ctx, card); err != nil {
		return err
	}
	if err := c.a.Ask("hold", args("in-flight")); err != nil {
		return err
	}
	if err := c.s.Until(ctx, "the write", func() (bool, error) { return len(c.wrote()) == 1, nil }); err != nil {
		return err
	}
	if c.s.o.spare {
		if err := save(c.data, "go", ""); err != nil {
			return err
		}
	}
	if err := c.kill(e); err != nil {
		return err
	}
	a, err := c.told(ctx)
	if err != nil {
		return err
	}
	now, err := c.replaced(ctx, 2)
	if err != nil {
		return err
	}
	c.p.Judge(a.Outcome == "sent_unconfirmed" && a.Old == e.Epoch && a.New == now.Epoch, "What was the client told of the write?",
		"%s, oldEpoch %s, newEpoch %s: %s; retry: %s", orNone(a.Outcome), orNone(a.Old), orNone(a.New), a.Reason, a.Retry)
	if _, err := c.list(ctx); err != nil { // whatever would be sent again has been sent by then
		return err
	}
	c.p.Judge(len(c.wrote()) == 1, "How often did the write happen?", "%d time: %s", len(c.wrote()), strings.Join(c.wrote(), "; "))
	return nil
}

func (c *rebuild) otherTree(ctx context.Context) error {
	if err := c.start(ctx, "restart"); err != nil {
		return err
	}
	e, err := c.first(ctx)
	if err != nil {
		return err
	}
	if e.Execution.TreeDigest == "" || !strings.HasPrefix(e.Execution.TreeDigest, "sha256:") {
		c.p.Tell("Is what the entry loads measured?", "no: %s", strings.Join(e.Execution.Unpinned, "; "))
		return nil
	}
	if err := save(c.dir, "part.py", "WORD = \"two\"\n"); err != nil {
		return err
	}
	now, err := c.replaced(ctx, 2)
	if err != nil {
		return err
	}
	c.p.Judge(now.Execution.EntryDigest == e.Execution.EntryDigest && now.Execution.TreeDigest != e.Execution.TreeDigest, "Is it another identity, though its entry is the same file?",
		"entry %s, then %s; tree %s, then %s", e.Execution.EntryDigest, now.Execution.EntryDigest, e.Execution.TreeDigest, now.Execution.TreeDigest)
	a, err := c.call(ctx, "adjust", args("again"))
	if err != nil {
		return err
	}
	c.refused(a, e, now, 1)
	return nil
}

func (c *rebuild) omitted(ctx context.Context) error {
	if err := c.start(ctx, "none"); err != nil {
		return err
	}
	if err := save(c.data, "grown", ""); err != nil {
		return err
	}
	a, _, err := c.approved(ctx, "grow", nil)
	if err != nil {
		return err
	}
	if a.Code != "" {
		return fmt.Errorf("the approved call of grow came to %s", a.Code)
	}
	if _, err := c.list(ctx); err != nil {
		return err
	}
	if _, err := c.call(ctx, "publish", args("omitted")); err != nil {
		return err
	}
	card, err := c.s.Card(ctx, "publish", c.label)
	if err != nil {
		return err
	}
	shown := ""
	for _, d := range card.Defaults {
		shown += d.Field + " = " + d.Value
	}
	c.p.Judge(shown == `target = "preview"`, "Does the card show what is left out, as the server's claim?", "%s", orNone(shown))
	if err := c.s.Approve(ctx, card); err != nil {
		return err
	}
	if a, err = c.call(ctx, "publish", args("omitted")); err != nil {
		return err
	}
	c.p.Judge(a.Target == "preview", "What does the running code do with a call that leaves it out?", "target=%s; the schema says preview", orNone(a.Target))
	return nil
}

// strangers looks at a server of the caller's: how it is known, that nothing reaches it without approval, that a restart is
// another epoch.
func (c *rebuild) strangers(ctx context.Context) error {
	if err := c.start(ctx, "restart"); err != nil {
		return err
	}
	e, err := c.started(ctx, 1)
	if err != nil {
		return err
	}
	x := e.Execution
	c.p.Judge(x.ExeDigest != "" || x.EntryDigest != "", "Which code was started?", "%s, executable %s, entry %s, lockfile %s, tree %s, runtime %s, pid %d, epoch %s; not pinned: %s", strings.Join(x.LaunchCommand, " "),
		orNone(x.ExeDigest), orNone(x.EntryDigest), orNone(x.LockfileDigest), orNone(x.TreeDigest), orNone(x.Runtime), e.ProcessID, e.Epoch, orNone(strings.Join(x.Unpinned, "; ")))
	c.p.Tell("What does it offer?", "%s", orNone(strings.Join(c.a.Tools, ", ")))
	if len(c.a.Tools) == 0 {
		return nil
	}
	a, err := c.call(ctx, c.a.Tools[0], nil)
	if err != nil {
		return err
	}
	c.p.Judge(a.Code == "not_authorized", "Is a call refused that nobody approved?", "%s: %s", orNone(a.Code), orNone(a.Reason))
	if err := c.kill(e); err != nil {
		return err
	}
	now, err := c.replaced(ctx, 2)
	if err != nil {
		return err
	}
	c.p.Judge(now.Epoch != e.Epoch, "Is a restart another epoch?", "%s after %s, cause %s", now.Epoch, e.Epoch, now.Cause)
	tools, err := c.list(ctx)
	if err != nil {
		return err
	}
	c.p.Judge(strings.Join(tools, " ") == strings.Join(c.a.Tools, " "), "Does it offer the same tools?", "%s", orNone(strings.Join(tools, ", ")))
	if a, err = c.call(ctx, c.a.Tools[0], nil); err != nil {
		return err
	}
	c.p.Judge(a.Code == "not_authorized" || a.Code == "authorization_stale", "Is it still refused?", "%s", orNone(a.Code))
	return nil
}
