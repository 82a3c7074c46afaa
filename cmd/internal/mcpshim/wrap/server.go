package wrap

import (
	"context"
	"errors"
	"slices"
	"time"

	"sallyport/gateway/api"
)

// A server that crashes crashLimit times within crashWindow is not started again.
const (
	crashLimit  = 5
	crashWindow = 2 * time.Minute
	lastLines   = 300 * time.Millisecond // for lines that are on their way when a server has ended
)

// supervised is the server as it stands.
type supervised struct {
	kin      *kin
	link     Link   // nil: no gateway
	kid      *child // nil: no server runs
	starting bool   // one is being started
	again    bool   // a request is reason enough to try a start
	down     string // why none runs, for the host
	stop     bool   // the operator wants none any more
	epoch    string // the last one that the gateway named
	crashes  []time.Time
	files    *watch // nil: nothing is watched
	late     int    // lines of or for a server that had ended
	dropped  int    // lines that were no JSON-RPC
}

// launch starts a server: the gateway measures, we execute, the gateway makes an epoch of it. before ends the one before.
func (w *wrapper) launch(cause string, before func()) {
	if w.starting || w.stop || w.ending != nil {
		return
	}
	if old := w.kid; old != nil { // it was the server of a gateway that is gone
		w.abandon(old)
		before = func() { w.kin.terminate(old, w.cfg) }
	}
	w.starting, w.again = true, false
	link := w.link
	go func() {
		if before != nil {
			before()
		}
		k, link, st, err := w.bringUp(w.ctx, link, cause)
		w.post(func() { w.launched(k, link, st, err) })
	}()
}

// bringUp is the order of server.go in gateway/api, up to the epoch.
func (w *wrapper) bringUp(ctx context.Context, link Link, cause string) (*child, Link, api.ServerState, error) {
	if link == nil {
		var err error
		if link, err = w.cfg.Open(ctx, func(p api.Push) { w.post(func() { w.pushed(p) }) }); err != nil {
			return nil, nil, api.ServerState{}, err
		}
	}
	env := append(slices.Clip(w.cfg.Env), EnvSocket+"="+link.Socket())
	planned, err := link.Plan(ctx, api.ServerPlan{ServerLabel: w.cfg.Label, LaunchCommand: w.cfg.Command, WorkingDirectory: w.cfg.Dir,
		Environment: env, Cause: cause, Workers: w.cfg.Workers, Reload: w.cfg.Reload, ExitWithin: int(w.cfg.ExitWithin.Milliseconds()), Children: w.cfg.Children})
	if err != nil {
		return nil, link, api.ServerState{}, err
	}
	w.post(func() { w.watch(planned.Record) })
	k, err := w.kin.start(w.cfg.Command, w.cfg.Dir, env, w.errs)
	if err != nil {
		return nil, link, api.ServerState{}, err
	}
	st, err := link.Started(ctx, k.pid())
	return k, link, st, err
}

// launched takes what came of a start.
func (w *wrapper) launched(k *child, link Link, st api.ServerState, err error) {
	w.starting = false
	if link != nil && link != w.link {
		w.link = link
		go func() {
			<-link.Done()
			w.post(func() { w.unlinked(link) })
		}()
	}
	if k != nil {
		go k.listen(func(line []byte) { w.post(func() { w.fromChild(k, line) }) }, w.host.room)
		go w.awaitEnd(k)
	}
	if w.ending != nil {
		w.kid = k
		w.ending.begin(w)
		return
	}
	if err != nil {
		w.failed(k, err)
		return
	}
	k.epoch, w.kid, w.epoch = st.ExecutionEpoch, k, st.ExecutionEpoch
	if w.stop { // it was said while this was under way
		w.halt()
		return
	}
	w.down = ""
	w.say("server started: pid=%d epoch=%s", k.pid(), k.epoch)
	w.settleDead()
	w.greet(k)
}

// failed answers what waited for a server that could not be started.
func (w *wrapper) failed(k *child, err error) {
	if k != nil {
		go w.kin.terminate(k, w.cfg)
	}
	var e *api.Error
	w.again = !w.stop && errors.As(err, &e) && (e.Code == "gateway_unreachable" || e.Code == "gateway_restarted")
	if !errors.As(err, &e) {
		e = api.Fail("server_down", err.Error())
	}
	if !w.stop {
		w.down = "the server was not started: " + e.Error()
	}
	w.say("sp mcp: %s", w.down)
	w.settleDead()
	w.fetching = false
	for _, m := range w.unwait() {
		if m.method == "tools/call" {
			w.reply(m, w.refusal(m.id, e))
		} else {
			w.reply(m, failure(m.id, codeDown, w.down))
		}
	}
}

// ready lets through what waited.
func (w *wrapper) ready(k *child) {
	k.greeted = true
	w.letGo(&w.held)
}

// awaitEnd tells the loop that a child has ended, once its last lines are in.
func (w *wrapper) awaitEnd(k *child) {
	<-k.exited
	select {
	case <-k.read:
	case <-time.After(lastLines): // a descendant holds the other end
	}
	w.post(func() { w.exited(k) })
}

// anew is how a server that stays down comes back.
const anew = "connect again to start it"

// exited takes the end of a child that nobody asked for.
func (w *wrapper) exited(k *child) {
	if k.closing || w.kid != k {
		return
	}
	w.kin.reap(k)
	how := k.cmd.ProcessState.String()
	w.kid = nil
	w.say("server ended: pid=%d epoch=%s: %s", k.pid(), k.epoch, how)
	if w.ending != nil {
		w.lose(k)
		return
	}
	probed := w.probe && !w.agreedAny()
	if probed {
		w.legacyOnly = true
	}
	now := time.Now()
	w.crashes = slices.DeleteFunc(append(w.crashes, now), func(t time.Time) bool { return now.Sub(t) > crashWindow })
	again := probed || w.cfg.Reload == "restart" && len(w.crashes) < crashLimit
	link, epoch := w.link, k.epoch
	tidy := func() {
		if link != nil { // it sweeps what the child left
			link.End(w.ctx, api.ServerEnd{ExecutionEpoch: epoch, Reason: "crash"})
		} else {
			w.kin.clear(w.cfg, 0)
		}
	}
	if again {
		w.launch("crash", tidy)
		w.lose(k)
		return
	}
	go tidy()
	w.down = "the server has ended (" + how + ") and is not started again; " + anew
	if w.cfg.Reload == "restart" {
		w.down = "the server has failed: it ended 5 times within 2 minutes, the last time with " + how + "; " + anew
	}
	w.say("sp mcp: %s", w.down)
	w.lose(k)
	w.letAllGo()
}

// lose gives up what a child still owes.
func (w *wrapper) lose(k *child) {
	owed := k.owed
	k.owed = make(map[string]*request)
	clear(k.asked)
	for _, r := range owed {
		r.lost()
	}
}

// abandon gives a child up that still runs.
func (w *wrapper) abandon(k *child) {
	k.closing, w.kid = true, nil
	w.lose(k)
}

// reload replaces a running child.
func (w *wrapper) reload() {
	k, link := w.kid, w.link
	if k == nil || link == nil || w.starting || w.ending != nil {
		return
	}
	k.closing = true
	w.kid = nil
	w.launch("reload", func() { w.kin.end(w.ctx, k, link, w.cfg, "reload") })
	w.lose(k)
}

// unlinked takes the loss of the gateway. The server runs on, and is started anew for the next call: a new gateway knows
// only what it saw start.
func (w *wrapper) unlinked(link Link) {
	if w.link != link || w.ending != nil {
		return
	}
	w.link, w.again = nil, !w.stop
	if w.again {
		w.say("sp mcp: the gateway has gone; the next call starts the server anew")
	}
}

// pushed takes what the gateway says unasked.
func (w *wrapper) pushed(p api.Push) {
	switch p.Kind {
	case api.PushStatus:
		for _, l := range p.Lines {
			w.status(l)
		}
	case api.PushCancel:
		w.callBack(p.Action)
	case api.PushStop:
		w.stopped(p.Reason)
	case api.PushEpoch:
		if p.Server != nil {
			w.replaced(*p.Server)
		}
	}
}

// replaced takes another process behind the same pipe: what the one before owed is lost, and the new one is greeted.
func (w *wrapper) replaced(st api.ServerState) {
	k := w.kid
	if k == nil || k.epoch == st.ExecutionEpoch || st.Cause != api.CauseForeign {
		return
	}
	w.say("server replaced by another process: pid=%d epoch=%s, before epoch=%s", st.ProcessID, st.ExecutionEpoch, k.epoch)
	k.epoch, w.epoch = st.ExecutionEpoch, st.ExecutionEpoch
	k.greeted = false
	w.lose(k)
	w.settleDead()
	w.greet(k)
}

// stopped ends the child for the operator. None is started after it.
func (w *wrapper) stopped(reason string) {
	if reason == "" {
		reason = "the operator revoked it"
	}
	w.down, w.again, w.stop = "the server was stopped: "+reason, false, true
	w.say("sp mcp: %s", w.down)
	if w.kid != nil && w.ending == nil {
		w.halt()
	}
}

// halt ends the running child for good.
func (w *wrapper) halt() {
	k, link := w.kid, w.link
	w.abandon(k)
	w.settleDead()
	w.letAllGo()
	go w.kin.end(w.ctx, k, link, w.cfg, "operator")
}
