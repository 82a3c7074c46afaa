package demo

import (
	"fmt"
	"slices"
	"strings"

	"sallyport/auditlog"
	"sallyport/gateway/api"
)

// check is one thing that must be true of the evidence. found says what is the case instead; empty: it holds.
type check struct {
	step  string
	name  string
	claim string
	found func(e evidence) string
}

// finding is what came of one check.
type finding struct {
	step, name, claim string
	found             string // empty: it holds
}

// judge holds the evidence to every check. It is pure: what was not gathered fails.
func judge(e evidence) []finding {
	var out []finding
	for _, c := range checks() {
		out = append(out, finding{c.step, c.name, c.claim, c.found(e)})
	}
	return out
}

// unless is found's usual form: nothing if it holds, else what was found.
func unless(holds bool, format string, args ...any) string {
	if holds {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func checks() []check {
	return []check{
		{"vault", "vault-ready", "the vault is open, and its log's public key is pinned", func(e evidence) string {
			return unless(e.vault.state == "ready" && e.vault.pinned != "" && e.vault.pinned == e.vault.fingerprint,
				"the vault is %q; pinned is %q, made was %q", e.vault.state, e.vault.pinned, e.vault.fingerprint)
		}},
		{"http", "asked-first", "nothing had left before the operator said yes", func(e evidence) string {
			c := e.http
			return unless(c.card.ID != "" && c.card.Tool == api.ToolHTTP && c.before == 0,
				"card %q for %q; %d requests had arrived before the answer", c.card.ID, c.card.Tool, c.before)
		}},
		{"http", "run-is-the-agent", "the run belongs to the agent's process, not to the shim and not to the operator", func(e evidence) string {
			r := e.run
			return unless(r.id != "" && r.owner != 0 && r.owner == r.agent && r.owner != r.operator && r.caller != 0 && r.caller != r.owner,
				"run %q belongs to process %d; agent %d, shim %d, operator %d", r.id, r.owner, r.agent, r.caller, r.operator)
		}},
		{"http", "credential-sent", "the service got the credential, in one request", func(e evidence) string {
			c := e.http
			return unless(c.arrived == 1 && c.carried == 1, "%d requests arrived, %d with the credential", c.arrived, c.carried)
		}},
		{"http", "agent-answered", "the agent got the answer", func(e evidence) string {
			c := e.http
			return unless(c.confirmed(), "error %v, outcome %q, %s", c.isError, c.action.Outcome, c.code)
		}},
		{"http", "credential-redacted", "the service echoed the credential, and the agent's copy of the echo is redacted", func(e evidence) string {
			c := e.http
			return unless(c.echo == "Bearer [redacted]" && c.action.ReflectedCount > 0 && slices.Contains(c.action.Flags, "reflected"),
				"the echo does not read as redacted; %d reflections noticed, flags %q", c.action.ReflectedCount, c.action.Flags)
		}},
		{"ssh", "ssh-ran", "the host let the stored key in, and ran exactly what was approved", func(e evidence) string {
			c := e.ssh
			return unless(c.card.Tool == api.ToolSSH && c.before == 0 && c.arrived == 1 && c.carried == 1 && c.confirmed(),
				"card %q; %d commands before the answer, %d after, %d as approved; error %v, outcome %q, %s",
				c.card.ID, c.before, c.arrived, c.carried, c.isError, c.action.Outcome, c.code)
		}},
		{"revoke", "run-revoked", "the run is revoked, and nothing of it was under way", func(e evidence) string {
			r := e.revoked
			return unless(r.was == "active" && r.state == "revoked" && !r.at.IsZero() && r.left == 0,
				"the run was %q and is %q; %d actions had left", r.was, r.state, r.left)
		}},
		{"refused", "next-call-refused", "its next call is refused: run_revoked", func(e evidence) string {
			c := e.refused
			return unless(c.isError && c.code == "run_revoked", "error %v, code %q, outcome %q", c.isError, c.code, c.action.Outcome)
		}},
		{"refused", "nothing-arrived", "nothing of it reached the service", func(e evidence) string {
			c := e.refused
			return unless(c.made && c.arrived == 0, "made %v; %d requests arrived", c.made, c.arrived)
		}},
		{"log", "denial-recorded", "the refused attempt is in the log, after the revocation", func(e evidence) string {
			l := e.log
			return unless(l.revokedAt > 0 && l.deniedAt > l.revokedAt && l.denied == "run_revoked",
				"revoked at record %d; denied at record %d, reason %q", l.revokedAt, l.deniedAt, l.denied)
		}},
		{"log", "log-complete", "both calls are there with their approval, their intent and their result", func(e evidence) string {
			l := e.log
			return unless(l.approvals == 2 && l.intents == 2 && l.confirmed == 2 && l.open == 0 && l.sessions > 0 && l.activity > 0,
				"%d approvals, %d intents, %d confirmed results, %d intents without one; %d and %d lines", l.approvals, l.intents, l.confirmed, l.open, l.sessions, l.activity)
		}},
		{"search", "credential-never-shown", "neither credential is anywhere in it, in any form", func(e evidence) string {
			s := e.search
			if len(s.found) > 0 {
				return strings.Join(s.found, "; ")
			}
			return unless(len(s.empty) == 0 && s.bytes > 0, "nothing to search in: %q", s.empty)
		}},
		{"search", "search-works", "the same search finds every copy planted for it", func(e evidence) string {
			s := e.search
			return unless(s.planted > 0 && len(s.missed) == 0, "%d planted, missed %q", s.planted, s.missed)
		}},
		{"verify", "log-intact", "the log is intact, by the key that was pinned", func(e evidence) string {
			v := e.review.intact
			return unless(v.Verdict == auditlog.Intact && v.Fingerprint != "" && v.Fingerprint == e.vault.pinned && v.Records > 0 && v.OpenIntents == 0,
				"verdict %q %s %s, key %q, %d records, %d open intents", v.Verdict, v.Kind, v.Detail, v.Fingerprint, v.Records, v.OpenIntents)
		}},
		{"tamper", "tampering-found", "verification fails, and names the place", func(e evidence) string {
			r, v := e.review, e.review.broken
			return unless(r.changed == 1 && v.Verdict == auditlog.Broken && v.Segment == r.segment && v.Offset <= r.offset && v.Detail != "",
				"%d bytes differ, at %s byte %d; verdict %q %s at %s byte %d", r.changed, r.segment, r.offset, v.Verdict, v.Kind, v.Segment, v.Offset)
		}},
	}
}
