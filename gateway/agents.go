package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// Bounds of the agents' door. Work beyond them waits in the kernel's buffers, not in memory.
const (
	agentConns  = 2048 // open connections in all, less where descriptors are few
	connWork    = runLimit + 8
	writeBudget = 10 * time.Second // for one answer to a peer that does not read
	connBuffer  = 4 << 10          // bytes read at a time: most connections are idle, and each has one
	lineFree    = 64 << 10         // bytes of a line that need no room
	lineRoom    = 256 << 20        // bytes of all lines beyond that, until their actions end
	lineBudget  = 30 * time.Second // for the rest of a line that is longer
)

// serveAgents answers agents on l until ctx ends.
func (g *Gateway) serveAgents(ctx context.Context, l *net.UnixListener) error {
	var open sync.WaitGroup
	defer open.Wait()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	room := &seats{max: agentPlaces()}
	for {
		c, err := l.AcceptUnix()
		if scarce(err) { // what agents use up must not end the gateway
			g.complain("accept agent", err)
			if !pause(ctx) {
				return nil
			}
			continue
		}
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		mine := room.take(c)
		if mine == nil {
			c.Close()
			continue
		}
		open.Go(func() { g.serveAgent(ctx, c); room.leave(mine) })
	}
}

// agentConn is one connection of one identified process.
type agentConn struct {
	g     *Gateway
	conn  net.Conn
	proc  *peer.Process
	write sync.Mutex
	blobs *blobs
	pipes gitPipes
	since time.Duration   // when it connected, on the boot clock
	over  <-chan struct{} // closed at its end
	asked outstanding
}

// serveAgent identifies the peer and answers its lines. What it asked for and has not been sent dies with the connection.
func (g *Gateway) serveAgent(ctx context.Context, c *net.UnixConn) {
	defer c.Close()
	p, err := g.identified(c)
	if err != nil {
		g.recordDenied(ctx, "", event.AuthorizationDenied{Method: "connect", Reason: string(authz.PeerUnidentified)})
		a := &agentConn{g: g, conn: c}
		a.answer(api.Response{Error: api.Fail("peer_unidentified", "")})
		return
	}
	a := &agentConn{g: g, conn: peer.Conn(c, p), proc: p, blobs: newBlobs(&g.acts.blobRoom, p.Facts().PID), since: boot()}
	defer a.blobs.close()
	defer g.dismiss(p)
	doors := ctx
	ctx, cancel := context.WithCancel(ctx)
	a.over = ctx.Done()
	var work sync.WaitGroup
	defer work.Wait()
	defer func() { a.hangUp(doors.Err() != nil) }()
	defer cancel()
	defer a.pipes.close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	places := make(chan struct{}, connWork)
	r := bufio.NewReaderSize(a.conn, connBuffer)
	for {
		line, held, err := a.readLine(r)
		if refused, ok := errors.AsType[*api.Error](err); ok {
			a.answer(api.Response{Error: refused}) // the rest of the line is not read, so the connection is over
			return
		}
		if err != nil {
			if errors.Is(err, peer.ErrForeignSender) {
				g.recordDenied(ctx, "", event.AuthorizationDenied{Call: event.Call{Peer: recorded(p.Facts())}, Method: "connect",
					Reason: string(authz.PeerReplaced), Detail: "another process spoke on the connection"})
			}
			return
		}
		select {
		case places <- struct{}{}:
			work.Go(func() { a.serve(ctx, line, held); held.drop(); <-places })
		case <-ctx.Done():
			held.drop()
			return
		}
	}
}

// dismiss lets go of a connection's process unless an epoch keeps it.
func (g *Gateway) dismiss(p *peer.Process) {
	g.book.mu.Lock()
	e := g.book.peers[p.Key()]
	g.book.mu.Unlock()
	if e == nil || e.proc != p {
		p.Close()
	}
}

// readLine reads one line of at most api.FrameLimit bytes. What it keeps grows with what arrives; past lineFree bytes
// it also takes room from what all long lines share, and the line must end within lineBudget.
func (a *agentConn) readLine(r *bufio.Reader) (line []byte, held *hold, err error) {
	held = &hold{room: &a.g.acts.room, pid: a.proc.Facts().PID}
	held.refs.Store(1)
	defer func() {
		if held.n > 0 {
			a.conn.SetReadDeadline(time.Time{})
		}
		if err != nil {
			held.drop()
		}
	}()
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > api.FrameLimit {
			return nil, held, api.Fail("frame_too_large", "")
		}
		if len(line)+len(part) > lineFree {
			if held.n == 0 {
				a.conn.SetReadDeadline(time.Now().Add(lineBudget))
			}
			if !held.take(len(part)) {
				return nil, held, api.Fail("busy", "too many long requests are under way")
			}
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), held, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, held, io.ErrUnexpectedEOF // half a line is no request
		default:
			return nil, held, err
		}
	}
}

// serve answers one line.
func (a *agentConn) serve(ctx context.Context, line []byte, held *hold) {
	var req api.Request
	if fault := decodeRaw(line, &req, "/params/params", "/params/pages", "/params/reply"); fault != nil {
		// The call's own method walks the road with its fault, so that a malformed call is recorded like any other.
		a.refuseLine(ctx, idOf(line), fault)
		return
	}
	if len(req.ID) > 128 {
		a.refuseLine(ctx, "", api.Fail("invalid_request", "id: at most 128 bytes"))
		return
	}
	res := a.dispatch(ctx, req, held)
	res.ID = req.ID
	if err := a.proc.Same(); err != nil && res.Error == nil {
		// Withheld: whoever reads now is not who asked. The action itself is recorded and stays with its run.
		if res.Action != nil {
			a.g.late(*res.Action)
		}
		res = api.Response{ID: req.ID, Error: api.Fail("peer_replaced", "")}
	}
	a.answer(res)
}

func (a *agentConn) refuseLine(ctx context.Context, id string, fault *api.Error) {
	a.g.recordDenied(ctx, "", event.AuthorizationDenied{Call: event.Call{Peer: recorded(a.proc.Facts())}, Method: "line",
		Reason: fault.Code, Detail: escape(fault.Reason, 256)})
	a.answer(api.Response{ID: id, Error: fault})
}

func (a *agentConn) dispatch(ctx context.Context, req api.Request, held *hold) api.Response {
	switch req.Method {
	case api.MethodCall:
		return a.call(ctx, req, held)
	case api.MethodServerPlan:
		return a.serverPlan(ctx, req.Params)
	case api.MethodServerStarted:
		return a.serverStarted(ctx, req.Params)
	case api.MethodServerCatalog:
		return a.serverCatalog(ctx, req.Params)
	case api.MethodServerReport:
		return a.serverReport(ctx, req.Params)
	case api.MethodServerEnd:
		return a.serverEnd(ctx, req.Params)
	case api.MethodStatus:
		return a.status(ctx, req.Params)
	case api.MethodBlob:
		return a.blob(ctx, req.Params)
	case api.MethodGit:
		return a.git(ctx, req.Params)
	case api.MethodStream:
		return a.stream(ctx, req.Params)
	case api.MethodFile:
		return a.file(ctx, req.Params)
	case api.MethodCancel:
		return a.cancel(ctx, req.Params)
	case api.MethodTargets, api.MethodSession:
		return a.look(ctx, req.Method, req.Params)
	}
	fault := api.Fail("unknown_method", "")
	return api.Response{Error: a.denied(ctx, caller{proc: a.proc}, escape(req.Method, 64), "", fault)}
}

// identifyGrace is what a call has left to be registered in, however long it took to know its caller.
const identifyGrace = time.Second

// call walks one action and answers when it has ended, or as pending when the wait is over. held is kept as long as the
// action holds what the line said.
func (a *agentConn) call(ctx context.Context, req api.Request, held *hold) api.Response {
	began := time.Now()
	var r api.ActionRequest
	var q parsed
	sent := func() {} // gives back the room of the blob it names
	fault := decodeRaw(req.Params, &r, "/params")
	if fault == nil && (r.ExecutionEpoch != "" || len(r.Params) > 0 || r.RequestID != "") {
		return a.relayCall(ctx, r, req.ID, held)
	}
	if fault != nil {
		q.fault = fault
	} else {
		q = parseWith(r, func(ref string) ([]byte, *api.Error) {
			b, fault := a.blobs.take(ref)
			if fault != nil {
				return nil, fault
			}
			sent = b.held.drop
			return b.data, nil
		})
	}
	walk, withdraw, answered := a.asked.begin(ctx, req.ID)
	defer answered()
	if walk.Err() != nil { // withdrawn before it began
		withdraw()
		sent()
		return api.Response{Error: api.Fail("not_sent", "the caller withdrew it")}
	}
	who, err := a.g.identify(ctx, a.proc, a.g.log.w.Load() != nil) // without a log nothing can be opened
	if err != nil {
		withdraw()
		sent()
		a.g.complain("identify", err)
		return api.Response{Error: a.denied(ctx, who, api.MethodCall, q.tool, a.unidentified(err))}
	}
	wait := time.Duration(r.WaitSeconds) * time.Second
	if r.WaitSeconds == 0 {
		wait = api.WaitLimit * time.Second
	}
	// A client's program is measured first, which takes seconds where it is large and the machine busy: the caller's time.
	wait = max(wait-time.Since(began), min(wait, identifyGrace))
	ended := make(chan api.Action, 1)
	id := newID("act_")
	held.keep()
	a.g.task(func() { ended <- a.g.walk(walk, who, q, id); withdraw(); held.drop(); sent() })
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case act := <-ended:
		return answerOf(act)
	case <-t.C:
		act, _ := a.g.acts.get(id)
		return api.Response{Action: &act}
	case <-ctx.Done():
		a.g.task(func() { a.g.late(<-ended) })
		return api.Response{Error: api.Fail("gateway_restarted", "")}
	}
}

// answerOf: a denial is an error; every other outcome is an action.
func answerOf(act api.Action) api.Response {
	if act.Outcome == "denied" && act.Error != nil {
		return api.Response{Error: act.Error}
	}
	return api.Response{Action: &act}
}

// unidentified is a fault of the kernel's facts, or of the log that must keep them.
func (a *agentConn) unidentified(err error) *api.Error {
	if errors.Is(err, peer.ErrUnidentified) || errors.Is(err, peer.ErrGone) || errors.Is(err, peer.ErrReplaced) {
		return api.Fail("peer_unidentified", "")
	}
	return api.Fail("audit_unavailable", "this caller could not be recorded, so nothing is done for it")
}

// control walks rungs 0 to 3 and 7 for what is no call.
func (a *agentConn) control(ctx context.Context, method string, params []byte, into any) (caller, *api.Error) {
	g := a.g
	who, err := g.identify(ctx, a.proc, false)
	if err != nil {
		return who, a.denied(ctx, who, method, "", a.unidentified(err))
	}
	p := &plan{}
	if fault := decode(params, into); fault != nil {
		p.authz.Fault, p.detail = authz.Reason(fault.Code), fault.Reason
	}
	d := g.judge(who, p, authz.ControlWalk)
	if d.Verdict == authz.Allow {
		return who, nil
	}
	e := g.refusal(d)
	if p.detail != "" && d.Reason == p.authz.Fault {
		e.Reason = p.detail
	}
	return who, a.denied(ctx, who, method, "", e)
}

// judge decides under the run's lock, and changes nothing.
func (g *Gateway) judge(who caller, p *plan, walk authz.Walk) authz.Decision {
	same := who.same()
	if who.run != nil {
		who.run.mu.Lock()
		defer who.run.mu.Unlock()
	}
	return authz.Decide(g.facts(who, same, p, nil, walk))
}

// denied records a refusal that is no call's and returns it.
func (a *agentConn) denied(ctx context.Context, who caller, method, tool string, e *api.Error) *api.Error {
	c := a.g.recordCall(who, nil, "")
	c.Tool = tool
	a.g.recordDenied(ctx, "", event.AuthorizationDenied{Call: c, Method: method, Reason: e.Code, Detail: escape(e.Reason, 256)})
	return e
}

// look answers targets and session.
func (a *agentConn) look(ctx context.Context, method string, params []byte) api.Response {
	who, fault := a.control(ctx, method, params, &struct{}{})
	if fault != nil {
		return api.Response{Error: fault}
	}
	if method == api.MethodTargets {
		t := a.g.targets()
		if t == nil {
			return api.Response{Error: a.denied(ctx, who, method, "", api.Fail("vault_locked", ""))}
		}
		return api.Response{Result: encode(t.list())}
	}
	s := api.Session{State: authz.Pending.String(), Vault: a.g.vaultState().String(), Grants: []api.Grant{}}
	if r := who.run; r != nil {
		r.mu.Lock()
		s.AgentRun, s.State = r.id, r.state.String()
		if who.epoch != nil {
			s.ExecutionEpoch = who.epoch.id
			s.Grants = r.live(who.epoch)
		}
		r.mu.Unlock()
	}
	return api.Response{Result: encode(s)}
}

// late records that a result's caller had gone; the result itself stays for action_status.
func (g *Gateway) late(act api.Action) {
	if act.Outcome != "denied" && act.State == api.Done {
		ev := event.LateResult{Action: act.ID, Run: act.AgentRun, Epoch: act.ExecutionEpoch}
		g.complain("record late result", g.log.note(context.Background(), act.ID, ev))
	}
}

// answer writes one line. A peer that does not read loses its connection, not ours.
func (a *agentConn) answer(r api.Response) {
	line, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		a.g.complain("encode answer", err)
		return
	}
	a.write.Lock()
	defer a.write.Unlock()
	a.conn.SetWriteDeadline(time.Now().Add(writeBudget))
	if _, err := a.conn.Write(append(line, '\n')); err != nil {
		a.conn.Close()
	}
}

// idOf reads the id of a line that is no valid request, where it can be read.
func idOf(line []byte) string {
	var r struct {
		ID string         `json:"id"`
		X  jsontext.Value `json:",unknown"`
	}
	if json.Unmarshal(line, &r, jsontext.AllowDuplicateNames(true)) != nil || len(r.ID) > 128 {
		return ""
	}
	return r.ID
}
