package gateway

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"os"
	"path/filepath"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/auditlog/incident"
	"sallyport/gateway/api"
	"sallyport/gateway/store"
)

// taken asks for the incident record of the one run there is.
func (r *rig) taken(run string) (out api.Incident, records []incident.Record) {
	r.t.Helper()
	out = op[api.Incident](r, r.opRunIncident, api.IncidentArgs{ID: run, Entries: true})
	if err := json.Unmarshal(out.Records, &records); err != nil {
		r.t.Fatal(err)
	}
	return out, records
}

// apart compares what the rows say of a run with the log, as a reader does.
func apart(t *testing.T, r *rig, in api.Incident) []string {
	t.Helper()
	var rows, log []event.Item
	for _, e := range in.Entries {
		ev, err := event.Decode(e.Event)
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq <= in.Upto {
			rows = append(rows, event.Item{Seq: e.Seq, Time: e.Time, Event: ev})
		}
	}
	pub, err := os.ReadFile(filepath.Join(r.dir, "audit.pub"))
	if err != nil {
		t.Fatal(err)
	}
	for rec, err := range auditlog.Read(os.DirFS(filepath.Join(r.dir, "audit")), pub, r.created.ReaderIdentity) {
		if err != nil {
			t.Fatal(err)
		}
		ev, err := event.Decode(rec.Body)
		if err != nil {
			t.Fatal(err)
		}
		if rec.Seq <= in.Upto {
			log = append(log, event.Item{Seq: rec.Seq, Time: rec.Time, Event: ev})
		}
	}
	now := now().Wall
	out := incident.Apart(in.AgentRun, rows, log)
	return append(out, incident.Differences(incident.Of(in.AgentRun, slices.Values(rows), "rows", now), incident.Of(in.AgentRun, slices.Values(log), "log", now))...)
}

// acted is a gateway whose one run has made a call and was refused another.
func acted(t *testing.T) (*rig, string) {
	r := newRig(t, "")
	r.init()
	up := newUpstream(t, nil)
	r.addBearer("up", "GET "+up.URL+"/**")
	go r.approveAll(t.Context(), "run")
	a := r.agent()
	res := a.ask(api.MethodCall, call0(up.URL+"/deploy", "GET"))
	if code(res) != "confirmed" {
		t.Fatalf("call: %s", code(res))
	}
	if got := code(a.ask(api.MethodCall, call0(up.URL+"/deploy", "DELETE"))); got != "rule_mismatch" {
		t.Fatalf("refused: %s", got)
	}
	return r, res.Action.AgentRun
}

// Rows and log say the same of a run: while it acts, revoked, locked and unlocked again, and after a restart.
func TestIncidentRowsAreTheLogs(t *testing.T) {
	r, run := acted(t)
	check := func(when string) incident.Record {
		t.Helper()
		in, records := r.taken(run)
		if d := apart(t, r, in); len(d) > 0 {
			t.Errorf("%s: %q", when, d)
		}
		if len(records) != 1 || len(records[0].Differences) > 0 {
			t.Fatalf("%s: %d records, %+v", when, len(records), records)
		}
		return records[0]
	}
	x := check("active")
	if x.State != "active" || x.Target == nil || !strings.HasPrefix(x.Target.Operation, "GET /deploy") || len(x.Denied) != 1 || x.Denied[0].Reason != "rule_mismatch" {
		t.Errorf("%+v", x)
	}
	if x.Client.ProcessID == 0 || x.Client.ExeDigest == "" || x.Client.Command == "" || x.Kin == nil || x.Kin.Parent == 0 || x.Kin.Group == 0 {
		t.Errorf("what ran is not told: %+v %+v", x.Client, x.Kin)
	}
	if x.Live == nil || !x.Live.Alive || x.Live.Stat == "" || len(x.AuthorisedBy) != 1 || x.AuthorisedBy[0].Operator != "passphrase" {
		t.Errorf("%+v %+v", x.Live, x.AuthorisedBy)
	}
	op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: run})
	if x := check("revoked"); x.State != "revoked" || x.Revocation == nil || x.Revocation.Operator != "passphrase" {
		t.Errorf("%+v", x)
	}
	op[api.Status](r, r.opLock, struct{}{})
	_, records := r.taken(run)
	if len(records) != 1 || records[0].Revocation == nil || len(records[0].Unknown) == 0 || records[0].Target != nil {
		t.Errorf("locked: %+v", records)
	}
	r.unlock()
	check("unlocked")
	r.stop()
	again := newRig(t, r.dir)
	again.created = r.created
	again.unlock()
	r = again
	if x := check("restarted"); x.State != "revoked" || x.Target == nil {
		t.Errorf("%+v", x)
	}
}

// A crash takes no authority and no call from the rows: those are written with the outbox, and read back from the log.
func TestIncidentAfterACrash(t *testing.T) {
	r, run := acted(t)
	op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: run})
	dir := snapshot(t, r.dir) // before what is written behind was
	after := newRig(t, dir)
	after.created = r.created
	after.unlock()
	in, records := after.taken(run)
	if len(records) != 1 {
		t.Fatalf("%d records", len(records))
	}
	x := records[0]
	if x.Target == nil || !strings.HasPrefix(x.Target.Operation, "GET /deploy") || x.Result.Outcome != "confirmed" || x.Result.Status != 200 ||
		len(x.AuthorisedBy) != 1 || x.Revocation == nil || x.Calls[0].Grant == "" {
		t.Errorf("%+v", x)
	}
	for _, d := range apart(t, after, in) {
		// What no transaction holds and no own part tells may be missing, and is told as that. Nothing is wrong.
		if !strings.Contains(d, "the log has it, the rows do not") && !strings.Contains(d, "denied") && !strings.Contains(d, "rows say nothing") {
			t.Errorf("told: %s", d)
		}
	}
}

// Whoever changes the rows is found out, by the rows themselves or by the log.
func TestIncidentRowsChanged(t *testing.T) {
	r, run := acted(t)
	rows := func() []store.Told {
		t.Helper()
		rows, _, err := r.db.Told(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	r.taken(run)
	i := slices.IndexFunc(rows(), func(x store.Told) bool { return x.Run == run && x.Sealed })
	forged := rows()[i]
	forged.Seq += 1000 // a box moved to another place
	if err := r.db.Change(t.Context(), func(tx *store.Tx) error { return tx.Told([]store.Told{forged}) }); err != nil {
		t.Fatal(err)
	}
	if _, records := r.taken(run); !strings.Contains(strings.Join(records[0].Unknown, "\n"), "were changed") {
		t.Errorf("a moved row is not told: %q", records[0].Unknown)
	}
	invented := store.Told{Run: run, Seq: 1, At: forged.At, Body: event.Encode(event.RunRevoked{Run: run, Operator: "nobody"})}
	if err := r.db.Change(t.Context(), func(tx *store.Tx) error { return tx.Told([]store.Told{invented}) }); err != nil {
		t.Fatal(err)
	}
	in, records := r.taken(run)
	if !strings.Contains(strings.Join(records[0].Differences, "\n"), "the gateway acts by active") {
		t.Errorf("an invented state is not told: %q", records[0].Differences)
	}
	if d := strings.Join(apart(t, r, in), "\n"); !strings.Contains(d, "run_revoked") {
		t.Errorf("an invented row is not told: %s", d)
	}
}

// Nobody asks for what is not there, or in words of his own.
func TestIncidentArgs(t *testing.T) {
	r := newRig(t, "")
	r.init()
	for args, want := range map[string]string{`{"id":"run_none"}`: "not_found", `{}`: "invalid_request", `{"id":1}`: "invalid_request", `{"id":"x","y":1}`: "invalid_request"} {
		_, err := r.opRunIncident(opRequest{ctx: t.Context(), args: []byte(args), who: "unproved"})
		if err == nil || refusalOf(err).Code != want {
			t.Errorf("%s: %v", args, err)
		}
	}
}
