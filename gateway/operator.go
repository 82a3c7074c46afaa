package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
	"sallyport/gateway/proof"
	"sallyport/gateway/store"
	"sallyport/vault"
)

// The operators' door: one POST per verb, over a socket whose name is new at each start. It refuses whoever descends
// from an agent's run, before the path is looked at.

// opRequest is one operator's request, proved where its route says so.
type opRequest struct {
	ctx   context.Context
	args  []byte
	salt  []byte
	value []byte
	file  io.Reader // where the route takes one: what follows the line, not yet read
	proof *api.Proof
	keys  []api.Proof // further keys
	who   string      // how the log names the operator: by proof, never by name

	proc    *peer.Process // who sent it; nil only where nobody but this process could have
	sitting string        // the sitting that proves it, if one does
	tab     *tab          // the console's tab that sent it, in proc's place
	signed  *signed       // what a passkey signed, if one proves it
}

// peer is the sender as the log keeps it.
func (r opRequest) peer() event.Peer {
	if r.tab != nil {
		return r.tab.peer
	}
	if r.proc == nil {
		return event.Peer{}
	}
	return recorded(r.proc.Facts())
}

// word is whose word took something away, as the log keeps it: without a proof that is what the kernel says of the sender.
// Such a loss is told while the vault is locked too, so it waits in the clear: the program is named by its digest, not by
// where it lies.
type word struct {
	operator string
	peer     event.Peer
}

func (r opRequest) word() word {
	p := r.peer()
	p.Exe = ""
	return word{r.who, p}
}

// opHandler answers one verb. Its error becomes the table's status.
type opHandler func(r opRequest) (any, error)

// handlers has one for every route of api.Routes, which a test holds it to.
func (g *Gateway) handlers() map[string]opHandler {
	return map[string]opHandler{
		api.PathStatus: g.opStatus, api.PathInit: g.opInit, api.PathUnlock: g.opUnlock, api.PathLock: g.opLock, api.PathStop: g.opStop,
		api.PathPassphrase: g.opPassphrase, api.PathRekey: g.opRekey, api.PathBackup: g.opBackup, api.PathRestore: g.opRestore,
		api.PathSlotList: g.opSlotList, api.PathSlotAdd: g.opSlotAdd, api.PathSlotRemove: g.opSlotRemove,
		api.PathRelease: g.opRelease, api.PathPlan: g.opPlan, api.PathInspect: g.opInspect, api.PathImport: g.opImport, api.PathApply: g.opApply,
		api.PathWitnessAdd: g.opWitnessAdd, api.PathWitnessList: g.opWitnessList, api.PathWitnessRemove: g.opWitnessRemove,
		api.PathActionResolve: g.opActionResolve,
		api.PathCredentialAdd: g.opCredentialAdd, api.PathCredentialList: g.opCredentialList, api.PathCredentialRemove: g.opCredentialRemove,
		api.PathCredentialShow: g.opCredentialShow, api.PathCredentialRotate: g.opCredentialRotate, api.PathCredentialRebind: g.opCredentialRebind,
		api.PathCredentialTest: g.opCredentialTest, api.PathCredentialPresets: g.opCredentialPresets,
		api.PathTargetAdd: g.opTargetAdd, api.PathTargetList: g.opTargetList, api.PathTargetShow: g.opTargetShow, api.PathTargetRemove: g.opTargetRemove,
		api.PathApprovalList: g.opApprovalList, api.PathApprovalGrant: g.opApprovalGrant, api.PathApprovalDeny: g.opApprovalDeny,
		api.PathApprovalTable: g.opApprovalTable, api.PathApprovalMute: g.opApprovalMute, api.PathApprovalUnmute: g.opApprovalUnmute,
		api.PathPasskeyAdd: g.opPasskeyAdd, api.PathPasskeyOpen: g.opPasskeyOpen, api.PathPasskeyEnrol: g.opPasskeyEnrol,
		api.PathPasskeyList: g.opPasskeyList, api.PathPasskeyRemove: g.opPasskeyRemove, api.PathProofChallenge: g.opProofChallenge,
		api.PathSittingOpen: g.opSittingOpen, api.PathSittingClose: g.opSittingClose,
		api.PathRunList: g.opRunList, api.PathRunShow: g.opRunShow, api.PathRunRevoke: g.opRunRevoke,
		api.PathRunContain: g.opRunContain, api.PathRunTerminate: g.opRunTerminate,
		api.PathIncident:   g.opRunIncident,
		api.PathServerList: g.opServerList, api.PathServerShow: g.opServerShow, api.PathServerDigest: g.opServerDigest,
		api.PathEpochRevoke: g.opEpochRevoke, api.PathGrantList: g.opGrantList, api.PathGrantRevoke: g.opGrantRevoke,
		api.PathActionList: g.opActionList, api.PathActionShow: g.opActionShow, api.PathActionCancel: g.opActionCancel, api.PathCheckpoint: g.opCheckpoint,
		api.PathConsoleOpen: g.opConsoleOpen, api.PathActivityList: g.opActivityList, api.PathActivityRate: g.opActivityRate,
		api.PathRunTimeline: g.opRunTimeline, api.PathAuditVerify: g.opAuditVerify, api.PathAuditRead: g.opAuditRead, api.PathSettingsShow: g.opSettingsShow,
	}
}

type peerKey struct{}

// Operator is the door as a handler. A request must carry the peer that serveOperators put into its context.
func (g *Gateway) Operator() http.Handler {
	mux := chi.NewRouter()
	mux.Use(g.keepAgentsOut)
	have := g.handlers()
	for _, route := range api.Routes {
		mux.Post(api.OperatorPrefix+route.Path, g.verb(route, have[route.Path]))
	}
	mux.NotFound(func(w http.ResponseWriter, r *http.Request) { fail(w, api.Fail("unknown_method", "")) })
	mux.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) { fail(w, api.Fail("unknown_method", "")) })
	return mux
}

// serveOperators answers operators on l until ctx ends.
func (g *Gateway) serveOperators(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler:           g.Operator(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       10 * time.Second,
		MaxHeaderBytes:    32 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, peerKey{}, c)
		},
	}
	done := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		wait, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		done <- srv.Shutdown(wait)
	})
	defer stop()
	if err := srv.Serve(&opListener{Listener: l, g: g}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-done
}

// keepAgentsOut is L1: attribution, a raised bar and no boundary. The proof is what an agent can't give.
func (g *Gateway) keepAgentsOut(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := r.Context().Value(tabKey{}).(*tab); ok {
			next.ServeHTTP(w, r) // whoever asked for its token came through here
			return
		}
		why, who := "the caller could not be identified", event.Peer{}
		c, ok := r.Context().Value(peerKey{}).(*opConn)
		if !ok {
			g.keptOut(w, r, why, who)
			return
		}
		p, err := c.peer()
		if other, ok := errors.AsType[otherUser](err); ok {
			why = other.Error()
		}
		if err == nil {
			who = recorded(p.Facts())
			switch {
			case p.Same() != nil:
				why = "the caller is no longer the program that connected"
			case p.Descends(g.book.owns):
				why = "the caller descends from an agent's run"
			case p.Orphan():
				why = "the caller is an orphan: its session is gone"
			default:
				next.ServeHTTP(w, r)
				return
			}
		}
		g.keptOut(w, r, why, who)
	})
}

// keptOut records and answers a refusal. Anybody on the machine can reach this door, so the log counts what comes too
// often, as it does for agents.
func (g *Gateway) keptOut(w http.ResponseWriter, r *http.Request, why string, who event.Peer) {
	path := escape(r.URL.Path, 128)
	counted := event.AuthorizationDenied{Call: event.Call{Peer: who}, Method: path, Reason: "operator_refused", Detail: why}
	if g.log.w.Load() != nil && g.denied.admit("operators' door", counted, boot(), len(event.Encode(counted))+denialRecord) {
		g.complain("record refused operator", g.log.note(r.Context(), "", event.OperatorRefused{Path: path, Reason: why, Peer: who}))
	}
	fail(w, api.Fail("operator_refused", why))
}

// verb reads one request strictly, checks its proof, and answers.
func (g *Gateway) verb(route api.Route, h opHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(peerKey{}).(*opConn); ok {
			defer c.working.Store(false)
		}
		req, err := g.readOperator(route, w, r)
		if err == nil {
			var out any
			if out, err = h(req); err == nil {
				if f, ok := out.(*spooled); ok {
					f.send(w)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				w.Write(encode(out))
				return
			}
		}
		e := refusalOf(err)
		if e.Code == "internal" {
			g.complain(route.Path, err) // the operator is not told its words
		}
		if req.file != nil {
			io.CopyN(io.Discard, req.file, fileDrain)
		}
		fail(w, e)
	}
}

func (g *Gateway) readOperator(route api.Route, w http.ResponseWriter, r *http.Request) (opRequest, error) {
	line, value, file, err := readBody(route, w, r)
	if c, ok := r.Context().Value(peerKey{}).(*opConn); ok {
		if file == nil {
			c.working.Store(true)
		} else {
			file = atEnd{file, func() { c.working.Store(true) }}
		}
	}
	if err != nil {
		return opRequest{file: file}, err
	}
	var e api.Envelope
	if fault := decode(line, &e); fault != nil {
		return opRequest{file: file}, fault
	}
	req := opRequest{ctx: r.Context(), args: e.Args, salt: e.Salt, value: value, file: file, proof: e.Proof, keys: e.Keys, who: unprovedWho}
	return req, g.prove(route, &req)
}

// readBody is the envelope's line and what follows it, as the route takes it.
func readBody(route api.Route, w http.ResponseWriter, r *http.Request) (line, value []byte, file io.Reader, err error) {
	if route.File {
		body := bufio.NewReaderSize(patient{Reader: r.Body, c: http.NewResponseController(w)}, 64<<10)
		line, err = readLine(body)
		return line, nil, body, err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, api.FrameLimit+1))
	switch {
	case err != nil:
		return nil, nil, nil, api.Fail("invalid_request", "the request's body ended early")
	case len(body) > api.FrameLimit:
		return nil, nil, nil, api.Fail("frame_too_large", "")
	}
	line, value, _ = bytes.Cut(body, []byte("\n"))
	if !route.Value && len(value) > 0 {
		return nil, nil, nil, api.Fail("invalid_request", "this command takes no value")
	}
	return line, value, nil, nil
}

// prove checks a request's proof, where its route wants one.
func (g *Gateway) prove(route api.Route, req *opRequest) error {
	if c, ok := req.ctx.Value(peerKey{}).(*opConn); ok {
		req.proc, _ = c.peer()
	}
	req.tab, _ = req.ctx.Value(tabKey{}).(*tab)
	if !route.Proof {
		if takesAway(route.Path) {
			g.unproved.note(boot())
		}
		return nil
	}
	if req.proof == nil || req.proof.Value == "" && req.proof.Kind != "keychain" {
		return api.Fail("proof_required", "")
	}
	for _, k := range append(req.keys, *req.proof) {
		if len(k.Value) > api.ProofLimit {
			return api.Fail("invalid_request", "a proof is at most 4096 bytes")
		}
		if strings.ContainsFunc(k.Value, unicode.IsControl) {
			return api.Fail("proof_wrong", "a proof holds no control characters") // scrypt reads one that ends in NUL as one that doesn't
		}
	}
	req.who = req.proof.Kind
	switch route.Path {
	case api.PathInit, api.PathUnlock, api.PathRelease, api.PathPassphrase, api.PathSlotAdd, api.PathSlotRemove, api.PathRekey, api.PathRestore:
		return nil // these open a slot themselves
	}
	if err := g.ready(); err != nil {
		return err
	}
	if req.proof.Kind == sittingProof {
		req.sitting = req.proof.Value
		return g.sat(req.ctx, *req, route.Path)
	}
	if req.proof.Kind == passkeyProof {
		if err := g.proveSigned(route.Path, req); err != nil {
			return err
		}
		g.attended()
		return nil
	}
	if err := g.proof.Verify(req.ctx, req.proof, route.Path, req.args); err != nil {
		return err
	}
	g.attended()
	return nil
}

// checked returns the request's value if it is the one that args (and so the proof) speak of.
func (r opRequest) checked(length int, digest []byte) ([]byte, error) {
	h := sha256.New()
	h.Write(r.salt)
	h.Write(r.value)
	switch {
	case len(r.salt) != 16:
		return nil, api.Fail("invalid_request", "salt: 16 bytes")
	case len(r.value) > api.ValueLimit:
		return nil, api.Fail("invalid_request", "the value is over 1 MiB")
	case len(r.value) != length || !bytes.Equal(h.Sum(nil), digest):
		return nil, api.Fail("invalid_request", "the value is not the one the request speaks of; nothing was stored")
	}
	return r.value, nil
}

// refusalOf is an error as the operator is told it. What has no code is internal: its words stay in the log.
func refusalOf(err error) *api.Error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	for sentinel, code := range map[error]string{
		vault.ErrWrongKey: "proof_wrong", proof.ErrWrong: "proof_wrong", vault.ErrQuarantined: "vault_quarantined", vault.ErrLocked: "vault_locked",
		vault.ErrExists: "exists", vault.ErrUnknown: "not_found", auditlog.ErrPoisoned: "audit_unavailable",
	} {
		if errors.Is(err, sentinel) {
			return api.Fail(code, "")
		}
	}
	if why := store.DiskFault(err); why != "" {
		return api.Fail("disk_refused", why)
	}
	return api.Fail("internal", "")
}

func fail(w http.ResponseWriter, e *api.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(api.Lookup(e.Code).Status)
	b, err := json.Marshal(e)
	if err != nil {
		b = fmt.Appendf(nil, `{"error":%q,"reason":"the gateway failed"}`, "internal")
	}
	w.Write(b)
}
