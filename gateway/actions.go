package gateway

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/store"
	"sallyport/vault"
)

// Deeds live in the log. Here is what memory keeps of them: the actions under way and the latest ones that ended, the
// unresolved writes, and what waits to be written behind into the actions table.

// What stays in memory of ended actions: so many, and so many bytes of results. Older ones are read from the table.
const (
	recentActions = 1024
	recentBytes   = 64 << 20
)

type actions struct {
	flight   atomic.Int64 // reserved and not yet left
	room     room         // for what long lines say, while an action keeps it
	blobRoom room         // for blobs, until their actions end
	jobs     sync.Mutex   // one change of a job at a time; taken before everything else

	mu         sync.Mutex
	byID       map[string]*action
	ended      []string                   // ids in the order they ended, for the bounds
	bytes      int                        // of their results
	intents    map[string]uint64          // open intents -> sequence
	behind     []store.Action             // results not yet in the table
	behindDocs []keptAction               // the same, as documents to seal
	unresolved map[string]map[string]bool // plan digest or effect key (hex) -> actions
	kick       chan struct{}
	host       hostJobs
}

type action struct {
	doc  api.Action
	told chan struct{}           // closed when its call has ended: a job may run on
	done chan struct{}           // closed at the end
	drop context.CancelCauseFunc // ends the asking
	call *call                   // what the gate holds; nil before its plan

	live *streams // what it puts out while it runs

	kept keptAction // beside doc, once it has a result
}

func newActions() *actions {
	s := &actions{byID: map[string]*action{}, intents: map[string]uint64{}, unresolved: map[string]map[string]bool{}, kick: make(chan struct{}, 1)}
	s.room.open(lineRoom, lineRoom/2)
	s.blobRoom.open(blobRoom, blobShare)
	return s
}

// begin makes an action known. drop calls it back while nothing of it is recorded.
func (s *actions) begin(a api.Action, drop context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[a.ID] = &action{doc: a, told: make(chan struct{}), done: make(chan struct{}), drop: drop}
}

// update shows an action as it is now.
func (s *actions) update(a api.Action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.byID[a.ID]; x != nil {
		x.doc = a
	}
}

// end closes an action. A replay ends with another action's document and leaves that one as it is. An action that stands
// for a job the gateway watches goes on (running) after its call has ended.
func (s *actions) end(id string, a api.Action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.byID[id]
	x.doc, x.drop, x.call, x.live = a, nil, nil, nil
	close(x.told)
	if a.State != api.Done {
		return
	}
	close(x.done)
	s.ended = append(s.ended, id)
	s.bytes += len(a.Result)
	for len(s.ended) > recentActions || s.bytes > recentBytes {
		s.bytes -= len(s.byID[s.ended[0]].doc.Result)
		delete(s.byID, s.ended[0])
		s.ended = s.ended[1:]
	}
}

func (s *actions) get(id string) (api.Action, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.byID[id]; x != nil {
		return x.doc, true
	}
	return api.Action{}, false
}

// next is closed with the next news of an action: its call has ended, or the job that this left has.
func (s *actions) next(id string) (<-chan struct{}, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.byID[id]
	if x == nil {
		return nil, false
	}
	select {
	case <-x.told:
		return x.done, true
	default:
		return x.told, true
	}
}

func (s *actions) list(run string) []api.Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []api.Action{}
	for _, x := range s.byID {
		if run == "" || x.doc.AgentRun == run {
			out = append(out, x.doc)
		}
	}
	slices.SortFunc(out, func(a, b api.Action) int { return -strings.Compare(a.ID, b.ID) })
	return out
}

func (s *actions) inFlight() int { return int(s.flight.Load()) }

// intended notes an open intent, which holds the applied position back.
func (s *actions) intended(id string, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intents[id] = seq
}

// finished notes a result: the document as it stands, and its row, written behind. logged: the log has it.
func (s *actions) finished(a api.Action, p *plan, file *keptFile, logged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := keptAction{Doc: a, Digest: p.digest[:], EffectKey: p.effectHash(), Key: p.key, File: file}
	if x := s.byID[a.ID]; x != nil {
		x.doc, x.kept = a, k
		x.kept.Doc = api.Action{} // doc holds it
	}
	open := a.Outcome == "sent_unconfirmed" && p.authz.Effect != authz.Read
	if open {
		s.block(a.ID, k.Digest, k.EffectKey)
	}
	if !logged {
		return // the intent stays open: the next start tells it as unresolved
	}
	s.later(store.Action{ID: a.ID, Run: a.AgentRun, Epoch: a.ExecutionEpoch, State: a.State, Outcome: a.Outcome,
		Seq: s.intents[a.ID], Started: a.StartedAt, Finished: a.FinishedAt, Unresolved: open}, k)
	delete(s.intents, a.ID)
}

// later has a row written behind. mu must be held.
func (s *actions) later(row store.Action, k keptAction) {
	s.behind, s.behindDocs = append(s.behind, row), append(s.behindDocs, k)
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// blocked tells whether an unresolved write has the plan's digest, or its effect key.
func (s *actions) blocked(p *plan) (digest, effect bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unresolved) == 0 {
		return false, false
	}
	_, digest = s.unresolved[hex.EncodeToString(p.digest[:])]
	if h := p.effectHash(); h != nil {
		_, effect = s.unresolved[hex.EncodeToString(h)]
	}
	return digest, effect
}

// take hands out what waits for the table, and the log position that is covered once it is there.
func (s *actions) take(head uint64) (rows []store.Action, docs []keptAction, upto uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, docs, s.behind, s.behindDocs = s.behind, s.behindDocs, nil, nil
	upto = head
	for _, seq := range s.intents {
		upto = min(upto, seq-1)
	}
	return rows, docs, upto
}

// giveBack returns what could not be written.
func (s *actions) giveBack(rows []store.Action, docs []keptAction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind, s.behindDocs = append(rows, s.behind...), append(docs, s.behindDocs...)
}

// keptAction is an action's row as sealed: the document, the two keys by which an unresolved write blocks its twin, and
// the caller's idempotency key. Its result and the key of its file are sealed apart, as keptResult.
type keptAction struct {
	Doc       api.Action `json:"doc"`
	Digest    []byte     `json:"digest"`
	EffectKey []byte     `json:"effectKey"`
	Key       string     `json:"key,omitempty"`
	File      *keptFile  `json:"-"`
}

type keptResult struct {
	Result jsontext.Value `json:"result,omitzero"`
	File   *keptFile      `json:"file,omitempty"`
}

// remember takes an unresolved write into memory.
func (s *actions) remember(k keptAction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.block(k.Doc.ID, k.Digest, k.EffectKey)
}

// block makes an action's digest and effect key stand in the way. mu must be held.
func (s *actions) block(id string, keys ...[]byte) {
	for _, key := range keys {
		if len(key) == 0 {
			continue
		}
		k := hex.EncodeToString(key)
		if s.unresolved[k] == nil {
			s.unresolved[k] = map[string]bool{}
		}
		s.unresolved[k][id] = true
	}
}

// blocker is an action whose unknown outcome stands in the way of the plan's digest; empty for none.
func (s *actions) blocker(p *plan) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.unresolved[hex.EncodeToString(p.digest[:])] {
		return id
	}
	return ""
}

// open counts the writes nobody knows the end of.
func (s *actions) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := map[string]bool{}
	for _, by := range s.unresolved {
		maps.Copy(ids, by)
	}
	return len(ids)
}

// resolved notes the operator's word on an action, and lets go of what it stood in the way of.
func (s *actions) resolved(id, resolution string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.byID[id]; x != nil {
		if x.doc.Resolution = resolution; resolution != "happened" {
			x.kept.Key = ""
		}
	}
	s.free(id)
}

// unblock lets go of what an action stood in the way of: its end became known.
func (s *actions) unblock(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free(id)
}

// free is unblock's work. mu must be held.
func (s *actions) free(id string) {
	for k, ids := range s.unresolved {
		if delete(ids, id); len(ids) == 0 {
			delete(s.unresolved, k)
		}
	}
}

// writeBehind puts ended actions into their table, a few times a second at most. No call waits for it.
func (g *Gateway) writeBehind(ctx context.Context) {
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.acts.kick:
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		g.complain("write actions behind", g.flushActions(ctx))
	}
}

// flushActions writes what waits. The authority lock keeps the applied position from passing an outbox batch that the
// log has and the database still lists.
func (g *Gateway) flushActions(ctx context.Context) error {
	g.authority.Lock()
	defer g.authority.Unlock()
	if g.vault.State() != vault.Ready || g.unrecorded.Load() {
		return nil // replayed from the log at the next unlock
	}
	// The head is read before the open intents: one that comes between has a higher sequence than it.
	head := g.log.head().Seq
	if err := g.flushToldHeld(ctx); err != nil {
		return err
	}
	rows, docs, upto := g.acts.take(head)
	for i := range rows {
		if err := g.sealKept(&rows[i], docs[i]); err != nil {
			g.acts.giveBack(rows, docs)
			return err
		}
	}
	if err := g.db.Redo(context.WithoutCancel(ctx), upto, rows); err != nil {
		g.acts.giveBack(rows, docs)
		return err
	}
	return nil
}

// sealKept and openKept are the two sides of a row's sealed parts: results are sealed at rest like everything that says
// something.
func (g *Gateway) sealKept(row *store.Action, k keptAction) (err error) {
	r := keptResult{k.Doc.Result, k.File}
	k.Doc.Result = nil
	if row.Sealed, err = g.vault.Seal(store.UseAction, []byte(row.ID), encode(k)); err != nil {
		return err
	}
	if row.Result = nil; len(r.Result) > 0 {
		row.Result, err = g.vault.Seal(store.UseResult, []byte(row.ID), encode(r))
	}
	return err
}

func (g *Gateway) openKept(row store.Action) (k keptAction, err error) {
	doc, err := g.vault.Unseal(store.UseAction, []byte(row.ID), row.Sealed)
	if err == nil {
		err = json.Unmarshal(doc, &k)
	}
	if err == nil && len(row.Result) > 0 {
		var r keptResult
		if doc, err = g.vault.Unseal(store.UseResult, []byte(row.ID), row.Result); err == nil {
			err = json.Unmarshal(doc, &r)
		}
		k.Doc.Result, k.File = r.Result, r.File
	}
	if err != nil {
		return keptAction{}, fmt.Errorf("read action %s: %w", row.ID, err)
	}
	return k, nil
}

// kept shows an action from its row: all of it while the vault is open, else what is in the clear.
func (g *Gateway) kept(row store.Action) api.Action {
	if len(row.Sealed) > 0 && g.open.Load() {
		k, err := g.openKept(row)
		if err == nil {
			return k.Doc
		}
		g.complain("kept action", err)
	}
	return api.Action{ID: row.ID, AgentRun: row.Run, ExecutionEpoch: row.Epoch, State: row.State, Outcome: row.Outcome,
		StartedAt: row.Started, FinishedAt: row.Finished}
}

// find shows an action from memory, else from its row.
func (g *Gateway) find(ctx context.Context, id string) (api.Action, bool) {
	if a, ok := g.acts.get(id); ok {
		return a, true
	}
	row, ok, err := g.db.ActionByID(ctx, id)
	if err != nil || !ok {
		g.complain("read action", err)
		return api.Action{}, false
	}
	return g.kept(row), true
}
