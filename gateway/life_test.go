package gateway

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sallyport/gateway/api"
	"sallyport/httpexec"
	"sallyport/sshexec"
)

//go:generate go test -count=1 -run ^TestLifeDocument$ . -args -update

// Every outcome of every executor has a row, each row is reached, and none is left by anything but another row.
func TestLife(t *testing.T) {
	have := map[string]bool{}
	reached := map[int]bool{asked: true}
	for i, s := range life {
		if s.state == "" || s.by == "" || s.durable == "" {
			t.Errorf("row %d is not whole: %+v", i, s)
		}
		if err := placed(api.Action{State: s.state, Outcome: s.outcome}); err != nil {
			t.Error(err)
		}
		if s.outcome != "" {
			have[s.outcome] = true
		}
		for _, n := range s.next {
			reached[n] = true
			if life[n].state == api.Pending || s.state == api.Done && life[n].state != api.Done {
				t.Errorf("%s %s goes back to %s %s", s.state, s.outcome, life[n].state, life[n].outcome)
			}
		}
		if s.state != api.Done && len(s.next) == 0 {
			t.Errorf("%s %s has no end", s.state, s.outcome)
		}
	}
	for i := range life {
		if !reached[i] {
			t.Errorf("nothing leads to %s %s", life[i].state, life[i].outcome)
		}
	}
	for o := httpexec.SentUnconfirmed; o <= httpexec.Accepted; o++ {
		if !have[o.String()] {
			t.Errorf("httpexec's %s has no row", o)
		}
	}
	for o := sshexec.SentUnconfirmed; o <= sshexec.FailedRemote; o++ {
		if !have[o.String()] {
			t.Errorf("sshexec's %s has no row", o)
		}
	}
	for _, bad := range []api.Action{{}, {State: api.Done}, {State: api.Pending, Outcome: "confirmed"}, {State: api.Done, Outcome: "running"}} {
		if placed(bad) == nil {
			t.Errorf("%+v is placed", bad)
		}
	}
}

// placedAll holds every action in memory to the table; each test's gateway is looked at when it ends.
func (r *rig) placedAll() {
	for _, a := range r.acts.list("") {
		if err := placed(a); err != nil {
			r.t.Error(err)
		}
	}
}

// TestLifeDocument: docs/actions.md is what the table says. `go generate ./gateway` writes it.
func TestLifeDocument(t *testing.T) {
	file := filepath.Join("..", "docs", "actions.md")
	want := lifeDocument()
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the table says; run `go generate ./gateway`", file)
	}
}

func lifeDocument() []byte {
	var b bytes.Buffer
	b.WriteString("# The life of an action\n\n" +
		"Generated from the table in gateway/life.go by `go generate ./gateway`; no action of any test stands anywhere else.\n\n" +
		"INTENT and RESULT are records of the audit log, each with a part sealed to the gateway itself, from which the rows of\n" +
		"the actions table are rebuilt after a crash. What is not durable by then is not known by then: an answer is given\n" +
		"after its RESULT, or says that it could not be recorded.\n\n" +
		"| state | outcome | who brings an action there | what is durable by then | what may follow |\n| --- | --- | --- | --- | --- |\n")
	for _, s := range life {
		var next []string
		for _, n := range s.next {
			next = append(next, strings.TrimSpace(life[n].state+" "+life[n].outcome))
		}
		slices.Sort(next)
		after := strings.Join(next, ", ")
		if after == "" {
			after = "–"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", s.state, cellOf(s.outcome), s.by, s.durable, after)
	}
	b.WriteString("\nNothing is ever sent a second time by the gateway. Results are kept for a day, files\n" +
		"of long answers for a day, rows for thirty (the setting `retention`); the row of an unresolved write until the operator\n" +
		"has resolved it, and the log for ever.\n")
	return b.Bytes()
}

func cellOf(outcome string) string {
	if outcome == "" {
		return "–"
	}
	return "`" + outcome + "`"
}
