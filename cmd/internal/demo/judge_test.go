package demo

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// What was not gathered holds for nothing.
func TestZeroEvidence(t *testing.T) {
	for _, f := range judge(evidence{}) {
		if f.found == "" {
			t.Errorf("%s holds without evidence", f.name)
		}
	}
}

// Each check is told lies, over the evidence of a story that held: exit 1, and exactly that check is named.
func TestLies(t *testing.T) {
	d, _ := told(t)
	lies := map[string][]func(e *evidence){
		"vault-ready": {
			func(e *evidence) { e.vault.state = "locked" },
			func(e *evidence) { e.vault.fingerprint = "sha256:00" },
		},
		"asked-first": {
			func(e *evidence) { e.http.before = 1 },
			func(e *evidence) { e.http.card.ID = "" },
			func(e *evidence) { e.http.card.Tool = "ssh_exec" },
		},
		"run-is-the-agent": {
			func(e *evidence) { e.run.owner = e.run.operator },
			func(e *evidence) { e.run.agent, e.run.owner = e.run.operator, e.run.operator },
			func(e *evidence) { e.run.caller = e.run.owner },
			func(e *evidence) { e.run.id = "" },
		},
		"credential-sent": {
			func(e *evidence) { e.http.carried = 0 },
			func(e *evidence) { e.http.arrived, e.http.carried = 0, 0 },
			func(e *evidence) { e.http.arrived, e.http.carried = 2, 2 },
		},
		"agent-answered": {
			func(e *evidence) { e.http.isError = true },
			func(e *evidence) { e.http.action.Outcome = "sent_unconfirmed" },
			func(e *evidence) { e.http.action.Result = nil },
		},
		"credential-redacted": {
			func(e *evidence) { e.http.echo = "Bearer demo+token" },
			func(e *evidence) { e.http.echo = "" },
			func(e *evidence) { e.http.action.ReflectedCount = 0 },
			func(e *evidence) { e.http.action.Flags = nil },
		},
		"ssh-ran": {
			func(e *evidence) { e.ssh.arrived = 0 },
			func(e *evidence) { e.ssh.carried = 0 },
			func(e *evidence) { e.ssh.before = 1 },
			func(e *evidence) { e.ssh.action.Outcome = "failed_remote" },
		},
		"run-revoked": {
			func(e *evidence) { e.revoked.state = "active" },
			func(e *evidence) { e.revoked.was = "revoked" },
			func(e *evidence) { e.revoked.left = 1 },
		},
		"next-call-refused": {
			func(e *evidence) { e.refused.code = "not_authorized" },
			func(e *evidence) { e.refused.isError = false },
		},
		"nothing-arrived": {
			func(e *evidence) { e.refused.arrived = 1 },
			func(e *evidence) { e.refused.made = false },
		},
		"denial-recorded": {
			func(e *evidence) { e.log.deniedAt = 0 },
			func(e *evidence) { e.log.deniedAt = e.log.revokedAt - 1 },
			func(e *evidence) { e.log.revokedAt = 0 },
			func(e *evidence) { e.log.denied = "rule_mismatch" },
		},
		"log-complete": {
			func(e *evidence) { e.log.approvals = 1 },
			func(e *evidence) { e.log.intents = 3 },
			func(e *evidence) { e.log.confirmed = 1 },
			func(e *evidence) { e.log.open = 1 },
			func(e *evidence) { e.log.sessions = 0 },
			func(e *evidence) { e.log.activity = 0 },
		},
		"credential-never-shown": {
			func(e *evidence) { e.search.found = []string{"demo-api is in this screen, as raw"} },
			func(e *evidence) { e.search.empty = []string{"the decrypted log"} },
			func(e *evidence) { e.search.bytes = 0 },
		},
		"search-works": {
			func(e *evidence) { e.search.missed = []string{"demo-api as hex"} },
			func(e *evidence) { e.search.planted = 0 },
		},
		"log-intact": {
			func(e *evidence) { e.review.intact.Verdict = "torn" },
			func(e *evidence) { e.review.intact.Fingerprint = "sha256:00" },
			func(e *evidence) { e.review.intact.Records = 0 },
			func(e *evidence) { e.review.intact.OpenIntents = 1 },
		},
		"tampering-found": {
			func(e *evidence) { e.review.broken = e.review.intact },
			func(e *evidence) { e.review.changed = 0 },
			func(e *evidence) { e.review.broken.Segment = "00000009.seg" },
			func(e *evidence) { e.review.broken.Offset = e.review.offset + 1 },
		},
	}
	for _, c := range checks() {
		if len(lies[c.name]) == 0 {
			t.Errorf("%s is never lied to", c.name)
		}
	}
	for name, each := range lies {
		for i, lie := range each {
			e := d.seen
			lie(&e)
			var out bytes.Buffer
			if status := (&demo{out: newScreen(&out)}).conclude(e); status != 1 {
				t.Errorf("%s, lie %d: exit %d", name, i, status)
			}
			if !strings.Contains(out.String(), "did not hold: "+name+"\n") {
				t.Errorf("%s, lie %d: %s", name, i, out.String())
			}
		}
	}
	if status := (&demo{out: newScreen(&bytes.Buffer{})}).conclude(d.seen); status != 0 {
		t.Errorf("the truth: exit %d", status)
	}
}

// Every check belongs to a step, and every name is there once.
func TestChecksAreNamed(t *testing.T) {
	var names []string
	for _, c := range checks() {
		if slices.Contains(names, c.name) || c.claim == "" {
			t.Errorf("%s: twice, or without a claim", c.name)
		}
		names = append(names, c.name)
		if !slices.ContainsFunc(newDemo(Options{Out: &bytes.Buffer{}}).steps, func(s step) bool { return s.name == c.step }) {
			t.Errorf("%s: no step %s", c.name, c.step)
		}
	}
}
