package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
	"sallyport/gateway/store"
)

// past is what the operator said before, so that a card can tell what is new about it. Yes is kept with the grants, and
// read back at unlock; no is remembered until the gateway stops. It is shown and decides nothing.
type past struct {
	mu       sync.Mutex
	programs map[string]bool       // digests of programs that were given something
	yes      map[pastKey]storedYes // the last one
	no       map[string][]string   // by program
}

// pastKey is what a yes is compared by.
type pastKey struct{ program, tool, credential, target string }

// storedYes is what a grant's row keeps of its card.
type storedYes struct {
	Program string    `json:"program"` // exe digest of the run's agent
	Tool    string    `json:"tool"`
	Target  string    `json:"target"`
	Summary string    `json:"summary"` // at most pastSummary bytes
	At      time.Time `json:"at"`
}

// storedGrant is a grant's row as sealed.
type storedGrant struct {
	Grant api.Grant `json:"grant"`
	Yes   storedYes `json:"yes"`
}

// Bounds of what is remembered.
const (
	pastGrants  = 512 // the latest ones, read at unlock
	pastYes     = 4096
	pastNo      = 4
	pastSummary = 4 << 10
	pastDiff    = 40 // lines
)

func newPast() *past {
	return &past{programs: map[string]bool{}, yes: map[pastKey]storedYes{}, no: map[string][]string{}}
}

func yesOf(c *card, at time.Time) storedYes {
	return storedYes{Program: c.epoch.run.owner.facts.ExeDigest, Tool: c.shown.Tool, Target: c.shown.Target,
		Summary: cut(c.shown.Summary, pastSummary), At: at}
}

func (p *past) known(program string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return program != "" && p.programs[program]
}

// approved remembers a yes. The oldest is forgotten beyond the bound.
func (p *past) approved(credential string, y storedYes) {
	if y.Program == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := pastKey{y.Program, y.Tool, credential, y.Target}
	if old, ok := p.yes[key]; !ok || !y.At.Before(old.At) {
		p.yes[key] = y
	}
	p.programs[y.Program] = true
	for len(p.yes) > pastYes {
		var oldest pastKey
		first := true
		for k, v := range p.yes {
			if first || v.At.Before(p.yes[oldest].At) {
				oldest, first = k, false
			}
		}
		delete(p.yes, oldest)
	}
}

// denied remembers a no, told in one line.
func (p *past) denied(program, line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.no) >= pastYes && p.no[program] == nil {
		clear(p.no) // programs without end, and nobody's way to be remembered: it is shown and decides nothing
	}
	l := append(p.no[program], line)
	p.no[program] = l[max(0, len(l)-pastNo):]
}

// of is what a card tells of the past.
func (p *past) of(who caller, q *plan) api.Past {
	p.mu.Lock()
	defer p.mu.Unlock()
	program := who.run.owner.facts.ExeDigest
	out := api.Past{Denied: slices.Clone(p.no[program])}
	if y, ok := p.yes[pastKey{program, q.tool, q.authz.Credential, q.authz.Target}]; ok {
		out.ApprovedAt = y.At
		out.Diff = difference(y.Summary, cut(q.summary, pastSummary))
	}
	return out
}

// difference names the lines that only one of two actions has, in their order.
func difference(was, now string) []string {
	a, b := strings.Split(was, "\n"), strings.Split(now, "\n")
	only := func(sign string, of, in []string) (out []string) {
		count := map[string]int{}
		for _, l := range in {
			count[l]++
		}
		for _, l := range of {
			if count[l]--; count[l] < 0 {
				out = append(out, sign+l)
			}
		}
		return out
	}
	out := append(only("- ", a, b), only("+ ", b, a)...)
	if len(out) > pastDiff {
		out = append(out[:pastDiff], "… more lines differ")
	}
	return out
}

// loadPast reads what the latest grants were given for. The vault is open.
func (g *Gateway) loadPast(ctx context.Context) error {
	rows, err := g.db.LatestGrants(ctx, pastGrants)
	if err != nil {
		return err
	}
	for _, row := range rows {
		var s storedGrant
		plain, err := g.vault.Unseal(store.UseGrant, []byte(row.ID), row.Sealed)
		if err != nil {
			return fmt.Errorf("grant %s: %w", row.ID, err)
		}
		if json.Unmarshal(plain, &s) == nil {
			g.past.approved(strings.Join(s.Grant.CredentialScope, ","), s.Yes) // none, or one
		}
	}
	return nil
}
