package incident

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/auditlog/event"
)

const (
	runA = "run_01JV0000000000000000000001"
	runB = "run_01JV0000000000000000000002"
	epA  = "ep_01JV0000000000000000000001"
	epB  = "ep_01JV0000000000000000000002"
	epC  = "ep_01JV0000000000000000000003"
	actA = "act_01JV0000000000000000000001"
	actB = "act_01JV0000000000000000000002"
	actC = "act_01JV0000000000000000000003"
)

var day = time.Date(2031, 4, 5, 2, 0, 0, 0, time.UTC)

// log numbers events from 1 on, a second apart.
func log(evs ...event.Event) (items []event.Item) {
	for i, e := range evs {
		items = append(items, event.Item{Seq: uint64(i + 1), Time: day.Add(time.Duration(i) * time.Second), Event: e})
	}
	return items
}

func second(n int) time.Time { return day.Add(time.Duration(n) * time.Second) }

func client(pid int) event.Peer {
	return event.Peer{ProcessID: pid, Started: day.Add(-time.Hour), Exe: "/usr/bin/node", ExeDigest: "sha256:aa", Identity: "strong", Command: "node agent.js"}
}

func shim(pid, parent int) event.Peer {
	return event.Peer{ProcessID: pid, Started: day.Add(-time.Minute), Exe: "/usr/bin/sp", ExeDigest: "sha256:bb", Identity: "weak", Weak: []string{"traced by another process"},
		Command: "sp mcp", Parent: parent, Group: 40, Session: 30}
}

func called(act, run, ep, operation string) event.ToolCalled {
	return event.ToolCalled{Call: event.Call{Action: act, Run: run, Epoch: ep, Tool: "http_request", Target: "https://api.example", Operation: operation, Credential: "deploy"},
		Grant: "gr_1", IdempotencyKey: "k1"}
}

// story1 is two runs of one command line: A is approved, calls, loses its client with a call under way, tries again, is
// revoked, and tries once more. B only calls.
func story1() []event.Item {
	granted := event.GrantIssued{Grant: "gr_1", Run: runA, Epoch: epA, ToolScope: []string{"http_request"}, CredentialScope: []string{"deploy"},
		IssuedAt: second(2), ExpiresWhen: "agent-run-ends", Approval: "ap_1", Operator: "passphrase"}
	return log(
		event.RunOpened{Run: runA, Agent: client(50)}, // 1
		event.EpochOpened{Run: runA, Epoch: epA, Process: shim(51, 50), Launchers: []event.Peer{{ProcessID: 49, Exe: "/bin/sh"}}}, // 2
		granted, // 3
		event.RunOpened{Run: runB, Agent: client(60)},                                                                             // 4
		event.EpochOpened{Run: runB, Epoch: epB, Process: shim(61, 60)},                                                           // 5
		called(actA, runA, epA, "GET /a"),                                                                                         // 6
		event.ToolFinished{Action: actA, Run: runA, Epoch: epA, Outcome: "confirmed", Status: 200},                                // 7
		called(actC, runB, epB, "POST /b"),                                                                                        // 8
		called(actB, runA, epA, "POST /deploy"),                                                                                   // 9
		event.RunOrphaned{Run: runA},                                                                                              // 10
		event.ToolFinished{Action: actB, Run: runA, Epoch: epA, Outcome: "sent_unconfirmed"},                                      // 11
		event.AuthorizationDenied{Call: event.Call{Run: runA, Epoch: epA, Tool: "http_request"}, Reason: "run_orphaned"},          // 12
		event.RunRevoked{Run: runA, Operator: "unproved", Left: []string{actB}},                                                   // 13
		event.AuthorizationDenied{Call: event.Call{Run: runA, Epoch: epA, Tool: "http_request"}, Reason: "run_revoked", Count: 3}, // 14
		event.EpochEnded{Run: runA, Epoch: epA, Reason: "process_gone"},                                                           // 15
	)
}

func only(t *testing.T, rs []Record) Record {
	t.Helper()
	if len(rs) != 1 {
		t.Fatalf("%d records", len(rs))
	}
	return rs[0]
}

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// M27: every field of the record, from what is recorded alone.
func TestEveryField(t *testing.T) {
	now := day.Add(time.Hour)
	r := only(t, Of(runA, slices.Values(story1()), "rows", now))
	same(t, "observed", r.ObservedAt, now)
	same(t, "client", r.Client.ProcessID, 50)
	same(t, "client's command", r.Client.Command, "node agent.js")
	same(t, "client's digest", r.Client.ExeDigest, "sha256:aa")
	same(t, "server", r.Server.ProcessID, 51)
	same(t, "server's command", r.Server.Command, "sp mcp")
	same(t, "server's identity", r.Server.Identity+" "+strings.Join(r.Server.Weak, ","), "weak traced by another process")
	same(t, "kin", *r.Kin, Kin{50, 40, 30})
	same(t, "session", r.Run, runA)
	same(t, "state", r.State, "revoked")
	same(t, "last success", *r.LastSuccess, second(5))
	same(t, "last attempt", *r.LastAttempt, second(8))
	same(t, "target", *r.Target, Target{actB, "http_request", "https://api.example", "POST /deploy", "deploy"})
	same(t, "result", r.Result.Outcome, "sent_unconfirmed")
	same(t, "revoked at", r.Revocation.At, second(12))
	same(t, "revoked by", r.Revocation.Operator, "unproved")
	same(t, "left", strings.Join(r.Revocation.Left, " "), actB)
	same(t, "end", r.End.At, second(14))
	if len(r.FollowUp) == 0 || !strings.Contains(strings.Join(r.FollowUp, "\n"), "sp action resolve "+actB) {
		t.Errorf("follow-up: %q", r.FollowUp)
	}

	// The three times, apart.
	same(t, "client unavailable", *r.Times.ClientUnavailable, second(9))
	same(t, "last action started", *r.Times.LastActionStarted, second(8))
	same(t, "authority revoked", *r.Times.AuthorityRevoked, second(12))

	same(t, "launchers", len(r.Launchers), 1)
	same(t, "authorities", len(r.AuthorisedBy), 1)
	a := r.AuthorisedBy[0]
	same(t, "authority", a.Approval+" "+a.Operator+" "+a.Grant+" "+a.Ended, "ap_1 passphrase gr_1 run_orphaned")
	same(t, "calls", len(r.Calls), 2)
	same(t, "first class", r.Calls[0].Class, Before)
	same(t, "second class", r.Calls[1].Class, Uncertain)
	same(t, "approval of the call", r.Calls[0].Approval, "ap_1")
	same(t, "key", r.Calls[1].Key, "k1")
	same(t, "unresolved", len(r.Unresolved), 1)
	same(t, "look-up", r.Unresolved[0].LookUp, "sp action show "+actB)

	// Denied attempts stand apart, and are no attempted action.
	same(t, "denied", len(r.Denied), 2)
	same(t, "first denial", r.Denied[0].Reason, "run_orphaned")
	same(t, "after", r.Denied[0].After, false)
	same(t, "count", r.Denied[1].Count, 3)
	same(t, "proof of denial", r.Denied[1].After, true)

	// Each line names its records.
	seq := map[string][]uint64{}
	for _, s := range r.Sources {
		seq[s.Line] = s.Seq
	}
	for line, want := range map[string][]uint64{"clientProcess": {1}, "serverProcess": {2}, "parentAndGroup": {2}, "sessionIdentifier": {1},
		"authorizationState": {13, 10}, "lastSuccessfulActionAt": {6, 7}, "lastAttemptedActionAt": {9}, "targetAndOperation": {9},
		"resultOrJobId": {11}, "revocationTimeAndOperator": {13}, "terminationSignalAndResult": {15}} {
		if !slices.Equal(seq[line], want) {
			t.Errorf("%s comes from %v, want %v", line, seq[line], want)
		}
	}

	// The other run's last action is its own.
	b := only(t, Of(runB, slices.Values(story1()), "rows", now))
	same(t, "other client", b.Client.ProcessID, 60)
	same(t, "other action", b.Target.Action, actC)
	same(t, "other state", b.State, "pending")
}

// The thirteen lines come first, in the order of an incident note, under the names that programs rely on.
func TestOrderOfTheLines(t *testing.T) {
	b, err := json.Marshal(only(t, Of(runA, slices.Values(story1()), "rows", day)))
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	d := jsontext.NewDecoder(strings.NewReader(string(b)))
	for {
		tok, err := d.ReadToken()
		if err != nil {
			break
		}
		if d.StackDepth() != 1 || tok.Kind() != jsontext.KindString {
			continue
		}
		if _, n := d.StackIndex(1); n%2 == 1 {
			keys = append(keys, tok.String())
		}
	}
	want := strings.Fields(`observedAt clientProcess serverProcess parentAndGroup sessionIdentifier authorizationState lastSuccessfulActionAt
		lastAttemptedActionAt targetAndOperation resultOrJobId revocationTimeAndOperator terminationSignalAndResult followUpRequired`)
	if len(keys) < 13 || !slices.Equal(keys[:13], want) {
		t.Errorf("keys %v", keys)
	}
	for _, k := range []string{"calls", "unresolved", "rotate", "verify", "authorisedBy", "account"} {
		if !slices.Contains(keys, k) {
			t.Errorf("no key %s", k)
		}
	}
}

// What the gateway or its vault does to all grants shows in a run's record.
func TestVoided(t *testing.T) {
	items := append(story1()[:7], log(event.VaultLocked{Reason: "operator"}, event.GatewayStarted{})...)
	for i := range items {
		items[i].Seq = uint64(i + 1)
	}
	r := only(t, Of(runA, slices.Values(items), "log", day))
	same(t, "state", r.State, "pending")
	same(t, "grant", r.AuthorisedBy[0].Ended, "vault_locked")
	same(t, "calls before any loss", r.Calls[0].Class, Before)
	same(t, "advice", r.FollowUp[0], "revoke the run: sp run revoke "+runA)
}

// A call whose end nothing tells, one that a crash left open, a job: each has its look-up.
func TestUnresolved(t *testing.T) {
	open := func(rest ...event.Event) []Open {
		t.Helper()
		evs := append([]event.Event{event.RunOpened{Run: runA, Agent: client(50)}, called(actA, runA, epA, "POST /x")}, rest...)
		return only(t, Of(runA, slices.Values(log(evs...)), "rows", day)).Unresolved
	}
	same(t, "no result", len(open()), 1)
	same(t, "confirmed", len(open(event.ToolFinished{Action: actA, Outcome: "confirmed"})), 0)
	same(t, "not sent", len(open(event.ToolFinished{Action: actA, Outcome: "not_sent"})), 0)
	same(t, "unconfirmed", open(event.ToolFinished{Action: actA, Outcome: "sent_unconfirmed"})[0].Resolve, "sp action resolve "+actA+" --happened|--did-not-happen")
	crashed := event.ToolUnresolved{Action: actA, Outcome: "sent_unconfirmed", Cause: "restart"}
	same(t, "crash", len(open(crashed)), 1)
	same(t, "resolved", len(open(crashed, event.ToolResolved{Action: actA, Resolution: "happened"})), 0)
	job := open(event.ToolFinished{Action: actA, Outcome: "accepted", JobID: "j7"})
	same(t, "job", job[0].JobID, "j7")
	same(t, "a job needs no word", job[0].Resolve, "")
}

// A run that only its refusals, or only its revocation tells of still has its record; one that nothing tells of has none.
func TestFragments(t *testing.T) {
	denied := event.AuthorizationDenied{Call: event.Call{Run: runA, Epoch: epC, Peer: shim(77, 1)}, Reason: "vault_locked"}
	r := only(t, Of(runA, slices.Values(log(denied)), "rows", day))
	same(t, "process", r.Server.ProcessID, 77)
	if r.LastAttempt != nil {
		t.Error("a refusal counts as an attempted action")
	}
	r = only(t, Of(runA, slices.Values(log(event.RunRevoked{Run: runA, Operator: "unproved"})), "rows", day))
	same(t, "state", r.State, "revoked")
	if r.Server != nil || len(r.Unknown) == 0 {
		t.Errorf("%+v", r)
	}
	if rs := Of(runA, slices.Values(log(event.RunRevoked{Run: runB})), "rows", day); rs != nil {
		t.Errorf("%+v", rs)
	}
}

// Narrower revocations are told as what they are.
func TestNarrowRevocation(t *testing.T) {
	items := append(story1()[:7], event.Item{Seq: 8, Time: day, Event: event.GrantRevoked{Grant: "gr_1", Run: runA, Epoch: epA, Reason: "operator", Operator: "unproved"}})
	got := only(t, Of(runA, slices.Values(items), "rows", day)).Revocation
	same(t, "grant", got.Operator+" "+got.Of, "unproved gr_1")
	items[7].Event = event.EpochEnded{Run: runA, Epoch: epA, Reason: "operator", Operator: "passphrase"}
	got = only(t, Of(runA, slices.Values(items), "rows", day)).Revocation
	same(t, "epoch", got.Operator+" "+got.Of, "passphrase "+epA)
}

// Whatever a row says that the log does not, or keeps from saying, is told; two readings of one log differ in nothing.
func TestPlantedDifferences(t *testing.T) {
	whole := story1()
	rec := func(items []event.Item) []Record { return Of(runA, slices.Values(items), "rows", time.Now()) }
	if d := append(Differences(rec(whole), Of(runA, slices.Values(whole), "log", day)), Apart(runA, whole, whole)...); len(d) > 0 {
		t.Errorf("the same log differs from itself: %q", d)
	}
	for i, it := range whole {
		if runOf(it.Event) != runA {
			continue
		}
		without := slices.Delete(slices.Clone(whole), i, i+1)
		if Apart(runA, without, whole) == nil || Apart(runA, whole, without) == nil {
			t.Errorf("nobody misses record %d", it.Seq)
		}
		later := slices.Clone(whole)
		later[i].Time = later[i].Time.Add(time.Nanosecond)
		if len(Apart(runA, later, whole)) != 1 {
			t.Errorf("another time of record %d (%s) is not told", it.Seq, event.Type(it.Event))
		}
	}
	changed := slices.Clone(whole)
	changed[8].Event = called(actB, runA, epA, "GET /harmless")
	d := strings.Join(Differences(rec(changed), rec(whole)), "\n")
	if !strings.Contains(d, "the rows say GET /harmless, the log says POST /deploy") {
		t.Errorf("told: %s", d)
	}
	if d := Apart(runA, changed, whole); len(d) != 1 || !strings.Contains(d[0], "record 9 (tool_called), operation: the rows say GET /harmless") {
		t.Errorf("told: %q", d)
	}
	// A row rebuilt after a crash says less, and nothing else.
	less := slices.Clone(whole)
	less[8].Event = event.ToolCalled{Call: event.Call{Action: actB, Run: runA, Epoch: epA, Operation: "POST /deploy"}, Grant: "gr_1"}
	if d := Apart(runA, less, whole); len(d) > 0 {
		t.Errorf("told: %q", d)
	}
}

// Of many processes and calls the record tells the latest, and that there were more.
func TestBounds(t *testing.T) {
	evs := []event.Event{event.RunOpened{Run: runA, Agent: client(50)}}
	for i := range maxRecords + 10 {
		ep := "ep_" + strings.Repeat("0", 20) + string(rune('A'+i/26)) + string(rune('A'+i%26))
		evs = append(evs, event.EpochOpened{Run: runA, Epoch: ep, Process: shim(100+i, 50)})
	}
	rs := Of(runA, slices.Values(log(evs...)), "rows", day)
	if len(rs) != maxRecords || len(rs[0].Unknown) == 0 {
		t.Errorf("%d records, %q", len(rs), rs[0].Unknown)
	}
	same(t, "the latest", rs[len(rs)-1].Server.ProcessID, 100+maxRecords+9)
	evs = []event.Event{event.RunOpened{Run: runA, Agent: client(50)}, called(actA, runA, epA, "POST /deploy")} // its end is not known
	for range maxCalls + 3 {
		act := "act_" + string(rune(len(evs)))
		evs = append(evs, called(act, runA, epA, "GET /"), event.ToolFinished{Action: act, Outcome: "confirmed"})
	}
	r := only(t, Of(runA, slices.Values(log(evs...)), "rows", day))
	same(t, "listed", len(r.Calls), maxCalls)
	same(t, "left out", r.LeftOut, 4)
	same(t, "the first of them", r.Calls[0].Action, actA)
}
