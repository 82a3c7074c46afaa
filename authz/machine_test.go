package authz

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the tables in doc.go")

// Every pair of state and event, the invalid ones too. A dash is an error that leaves the state.
const runPairs = `
                    pending   active    orphaned  denied    revoked   ended
granted             active    active    -         active    -         -
denied twice        denied    active    -         denied    -         -
revoke              revoked   revoked   revoked   revoked   revoked   revoked
client gone, busy   orphaned  orphaned  orphaned  orphaned  revoked   ended
client gone, idle   ended     ended     orphaned  ended     revoked   ended
drained             -         -         ended     -         revoked   ended
lock                pending   pending   orphaned  denied    revoked   ended
clean end           ended     ended     -         ended     revoked   ended
`

const epochPairs = `
                 live   identity-pending  catalog-ready  ended
replaced         ended  ended             ended          ended
catalog fetched  live   catalog-ready     catalog-ready  -
approved         live   -                 live           -
gone             ended  ended             ended          ended
`

// machine is a state machine told in words.
type machine struct {
	states, events int
	state, event   func(int) string
	next           func(s, e int) (string, error)
}

func machines() map[string]machine {
	return map[string]machine{
		runPairs: {
			states: int(Ended), events: int(CleanEnd),
			state: func(i int) string { return RunState(i).String() }, event: func(i int) string { return RunEvent(i).String() },
			next: func(s, e int) (string, error) {
				n, err := RunState(s).Next(RunEvent(e))
				return n.String(), err
			},
		},
		epochPairs: {
			states: int(EpochEnded), events: int(Gone),
			state: func(i int) string { return EpochState(i).String() }, event: func(i int) string { return EpochEvent(i).String() },
			next: func(s, e int) (string, error) {
				n, err := EpochState(s).Next(EpochEvent(e))
				return n.String(), err
			},
		},
	}
}

func TestEveryPair(t *testing.T) {
	gap := regexp.MustCompile(`  +`)
	for table, m := range machines() {
		rows := strings.Split(strings.Trim(table, "\n"), "\n")
		want := map[string]string{}
		states := gap.Split(strings.TrimSpace(rows[0]), -1)
		for _, row := range rows[1:] {
			cells := gap.Split(row, -1)
			if len(cells) != len(states)+1 {
				t.Fatalf("row %q has %d cells", row, len(cells))
			}
			for i, s := range states {
				want[s+"/"+cells[0]] = cells[i+1]
			}
		}
		if len(want) != m.states*m.events {
			t.Errorf("the table has %d pairs, the machine %d", len(want), m.states*m.events)
		}
		// One past each end: what is no state or no event moves nothing.
		for s := 0; s <= m.states+1; s++ {
			for e := 0; e <= m.events+1; e++ {
				got, err := m.next(s, e)
				to, known := want[m.state(s)+"/"+m.event(e)]
				switch {
				case !known || to == "-":
					if err == nil || got != m.state(s) {
						t.Errorf("%s/%s: got %s, %v; want an error and no move", m.state(s), m.event(e), got, err)
					}
				case err != nil || got != to:
					t.Errorf("%s/%s: got %s, %v; want %s", m.state(s), m.event(e), got, err, to)
				}
			}
		}
	}
}

// No sequence of events leaves revoked, and none brings an orphan or an ended run back to authority.
func TestAuthorityDoesNotComeBack(t *testing.T) {
	for _, from := range []RunState{Orphaned, Revoked, Ended} {
		seen := map[RunState]bool{from: true}
		for queue := []RunState{from}; len(queue) > 0; queue = queue[1:] {
			for e := RunEvent(0); e <= CleanEnd+1; e++ {
				if n, err := queue[0].Next(e); err == nil && !seen[n] {
					seen[n] = true
					queue = append(queue, n)
				}
			}
		}
		if seen[Active] || seen[Pending] || seen[Denied] {
			t.Errorf("%s comes back: %v", from, seen)
		}
		if from == Revoked && len(seen) > 1 {
			t.Errorf("revoked is not final: %v", seen)
		}
	}
}

func TestParseRunState(t *testing.T) {
	for s := Pending; s <= Ended; s++ {
		if got := ParseRunState(s.String()); got != s {
			t.Errorf("%s is read as %s", s, got)
		}
	}
	for _, w := range []string{"", "invalid", "Active", "active ", "7"} {
		if got := ParseRunState(w); got != 0 {
			t.Errorf("%q is read as %s", w, got)
		}
	}
}

// The tables of the package comment are the ones the machines are tested on, and its ladder names every code.
func TestTablesInDoc(t *testing.T) {
	b, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	for heading, table := range map[string]string{"# Runs": runPairs, "# Epochs": epochPairs} {
		want := "//\t" + strings.ReplaceAll(strings.Trim(table, "\n"), "\n", "\n//\t") + "\n"
		if *update {
			doc = regexp.MustCompile(`(?s)(// `+heading+`\n//\n(?:// [^\n]*\n)+//\n)(?://\t[^\n]*\n)*`).
				ReplaceAllStringFunc(doc, func(s string) string { return regexp.MustCompile(`(?m)^//\t.*\n`).ReplaceAllString(s, "") + want })
		}
		if !strings.Contains(doc, want) {
			t.Errorf("%s is not in doc.go (go test -update writes it):\n%s", heading, want)
		}
	}
	if *update {
		if err := os.WriteFile("doc.go", []byte(doc), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range Reasons() {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^//\t.*\b%s\b`, r)).MatchString(doc) {
			t.Errorf("the ladder in doc.go does not name %s", r)
		}
	}
}
