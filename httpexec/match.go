package httpexec

import (
	"slices"
	"strings"
)

// Match is one request allowed by one rule. The zero Match allows nothing.
type Match struct {
	rules *Rules
	rule  *rule
	job   bool // by a job's template
}

// Rule is the rule as one would type it.
func (m Match) Rule() string {
	if m.rule == nil {
		return ""
	}
	return m.rule.String()
}

// Match returns the first rule that allows q, or a *RequestError with code
// rule_mismatch (no rule) or header_refused (a rule, but not with these headers).
func (r Rules) Match(q Request) (Match, error) {
	near, rank := "", -1
	for i := range r.allow {
		why := r.allow[i].allows(q)
		if why == "" {
			if err := r.checkHeaders(q); err != nil {
				return Match{}, err
			}
			if err := r.spec.checkPlace(q); err != nil {
				return Match{}, err
			}
			return Match{rules: &r, rule: &r.allow[i]}, nil
		}
		// Tell of the rule that came nearest.
		if n := slices.Index([]string{"origin", "path", "method"}, why); n < 0 || n > rank {
			if n < 0 {
				n = 3
			}
			near, rank = why, n
		}
	}
	reason := "no rule of this credential allows " + q.method + " " + q.Origin() + q.Path()
	switch {
	case rank == 1 && slices.ContainsFunc(q.segs, needsRaw):
		reason += `; %2F and ";" in a path need a {raw} segment in the rule`
	case near != "":
		reason += "; not allowed: its " + near
	}
	return Match{}, &RequestError{codeMismatch, reason}
}

func (r Rules) checkHeaders(q Request) error {
	for _, h := range q.headers {
		n := strings.ToLower(h.name)
		if r.spec.sets(n) {
			return &RequestError{codeHeader, "header " + h.name + ": the vault sets it; leave it out"}
		}
		if strings.EqualFold(n, r.spec.IdempotencyHeader) {
			return &RequestError{codeHeader, "header " + h.name + ": the gateway sets it; use idempotencyKey"}
		}
		if slices.Contains(openHeaders, n) {
			continue
		}
		ok, named := false, false
		for _, p := range r.headers {
			if p.name == n {
				named = true
				ok = ok || p.bare || globParts(strings.Split(p.value, "*"), h.value)
			}
		}
		switch {
		case !named:
			return &RequestError{codeHeader, "header " + h.name + ": no rule names it; leave it out, or have it allowed with --allow-header"}
		case !ok:
			return &RequestError{codeHeader, "header " + h.name + ": its value is not one the rule allows"}
		}
	}
	return nil
}
