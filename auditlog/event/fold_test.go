package event

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// lines folds the items both ways.
func lines(in ...Item) []Line {
	return slices.Concat(slices.Collect(Sessions(slices.Values(in))), slices.Collect(Activity(slices.Values(in))))
}

// checkShown fails if a terminal could act on a line, or an agent's text could look like another line.
func checkShown(t *testing.T, l Line) {
	t.Helper()
	for _, s := range []string{l.Text(), string(l.JSON())} {
		if !utf8.ValidString(s) {
			t.Fatalf("not UTF-8: %q", s)
		}
		for _, r := range s {
			if !visible(r) {
				t.Fatalf("shows %U: %q", r, s)
			}
		}
	}
}

func id(kind string, n int) string {
	return kind + "_01JQ7R4S4S0QJ7GZP1S2ABCD" + "01234567"[n:n+1] + "X"
}

// story is a run from its first contact to its revocation.
func story() []Item {
	run, ep, act, lost := id("run", 1), id("ep", 1), id("act", 1), id("act", 2)
	shim := Peer{ProcessID: 4711, Exe: "/usr/local/bin/sp", Identity: "strong"}
	call := Call{Action: act, Run: run, Epoch: ep, Peer: shim, Tool: "http_request", Credential: "github", Target: "github", Operation: "GET https://api.github.com/user"}
	ssh := Call{Action: lost, Run: run, Epoch: ep, Peer: shim, Tool: "ssh_exec", Credential: "deploy", Target: "web1", Operation: "systemctl"}
	exit := 0
	events := []Event{
		GatewayStarted{Version: "0.1.0", ProcessID: 12, AbsentCalls: 3},
		VaultCreated{VaultID: "v_1"},
		VaultUnlocked{Operator: "operator"},
		CredentialAdded{Credential: "github", Kind: "bearer", Version: 1, Operator: "operator"},
		TokenKept{Credential: "github", Field: "token", Action: "act_1", Run: "run_1", Epoch: "ep_1"},
		CredentialTested{Credential: "github", Operation: "GET /user", Outcome: "confirmed", Status: 200, Operator: "operator"},
		TargetAdded{Target: "web1", Address: "web1:22", Credential: "deploy", HostKeys: []string{"SHA256:aa"}, Shell: "posix", Operator: "operator"},
		RunOpened{Run: run, Agent: Peer{ProcessID: 4700, Exe: "/opt/node", Identity: "strong"}, Launchers: []Peer{{ProcessID: 4705, Exe: "/bin/sh"}}},
		EpochOpened{Run: run, Epoch: ep, Process: shim},
		ApprovalRequested{Approval: id("ap", 1), Run: run, Epoch: ep, Tool: "http_request", Credential: "github", Target: "github"},
		ApprovalGranted{Approval: id("ap", 1), Run: run, Epoch: ep, Scope: "run", Card: []byte("{}"), Proof: "passphrase", Operator: "operator"},
		GrantIssued{Grant: id("gr", 1), Run: run, Epoch: ep, ToolScope: []string{"http_request"}, CredentialScope: []string{"github"}, ExpiresWhen: "agent-run-ends", Approval: id("ap", 1), Operator: "operator"},
		ToolCalled{Call: call, Digest: "sha256:00", Decision: "granted", Grant: id("gr", 1)},
		ToolFinished{Action: act, Run: run, Epoch: ep, Outcome: "confirmed", Status: 200, Flags: []string{"reflected"}, Reflected: 2, Received: 512},
		ToolCalled{Call: ssh, Digest: "sha256:01", Preview: "systemctl status \u202enginx", Decision: "granted", Grant: id("gr", 1)},
		RunRevoked{Run: run, Operator: "unproved", Left: []string{lost}},
		AuthorizationDenied{Call: Call{Run: run, Epoch: ep, Peer: shim, Tool: "http_request", Target: "x reason=granted\n2026"}, Method: "call", Reason: "run_revoked", Count: 4},
		ToolUnresolved{Action: lost, Outcome: "sent_unconfirmed", Cause: "restart"},
		ToolFinished{Action: id("act", 3), Run: run, Epoch: ep, Outcome: "confirmed", Exit: &exit},
		LateResult{Action: id("act", 3), Run: run, Epoch: ep},
		RunEnded{Run: run},
		GatewayStopped{Reason: "signal"},
	}
	var items []Item
	for i, e := range events {
		items = append(items, Item{Seq: uint64(i + 1), Time: time.Date(2026, 1, 2, 3, 4, 5+i, 6e6, time.UTC), Event: e})
	}
	return items
}

// The two logs of one story, as people and as programs see them.
func TestStory(t *testing.T) {
	var b bytes.Buffer
	for _, l := range lines(story()...) {
		b.WriteString(l.Text() + "\n")
	}
	b.WriteByte('\n')
	for _, l := range lines(story()...) {
		b.Write(append(l.JSON(), '\n'))
	}
	path := filepath.Join("testdata", "story.txt")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("got (go test -update writes it)\n%s\nwant\n%s", b.String(), want)
	}
}

// Each item is in exactly one fold, in order; folding twice gives the same bytes.
func TestFoldsDivideTheLog(t *testing.T) {
	items := story()
	var seen []uint64
	for _, l := range lines(items...) {
		seen = append(seen, l.Seq)
	}
	slices.Sort(seen)
	for i, it := range items {
		if i >= len(seen) || seen[i] != it.Seq {
			t.Fatalf("item %d is in no fold or in two: %v", it.Seq, seen)
		}
	}
	a, b := lines(items...), lines(items...)
	for i := range a {
		if !bytes.Equal(a[i].JSON(), b[i].JSON()) || a[i].Text() != b[i].Text() {
			t.Errorf("two foldings:\n%s\n%s", a[i].JSON(), b[i].JSON())
		}
	}
	in := slices.Values(items)
	for _, fold := range []func() int{
		func() (n int) {
			for range Sessions(in) {
				n++
				break
			}
			return n
		},
		func() (n int) {
			for range Activity(in) {
				n++
				break
			}
			return n
		},
	} {
		if n := fold(); n != 1 {
			t.Errorf("%d lines after the reader stopped", n)
		}
	}
}

// A pointer to an event reads as the event, and an item without one is passed over.
func TestFoldsTakePointers(t *testing.T) {
	now := time.Unix(1, 0)
	got := lines(Item{1, now, &RunEnded{Run: "run_1"}}, Item{2, now, nil}, Item{3, now, &LateResult{Action: "act_1"}})
	if len(got) != 2 || !reflect.DeepEqual(got[0].Event, RunEnded{Run: "run_1"}) || !reflect.DeepEqual(got[1].Event, LateResult{Action: "act_1"}) {
		t.Errorf("got %+v", got)
	}
}

// A result is told with its call, once; a call of another action is not mixed in.
func TestResultIsToldWithItsCall(t *testing.T) {
	now := time.Unix(1, 0)
	got := lines(
		Item{1, now, ToolCalled{Call: Call{Action: "a", Run: "run_a", Operation: "GET /a"}}},
		Item{2, now, ToolCalled{Call: Call{Action: "b", Run: "run_b", Operation: "GET /b"}}},
		Item{3, now, ToolUnresolved{Action: "b"}},
		Item{4, now, ToolFinished{Action: "a"}},
		Item{5, now, ToolFinished{Action: "a"}},
	)
	for i, want := range []string{"", "", "GET /b", "GET /a", ""} {
		if got[i].Intent.Operation != want {
			t.Errorf("line %d is told with %q, want %q", i+1, got[i].Intent.Operation, want)
		}
	}
	if !strings.Contains(got[2].Text(), "run_b") {
		t.Errorf("no run in %s", got[2].Text())
	}
	if strings.Contains(string(got[3].JSON()), "GET /a") {
		t.Errorf("JSON has what the event did not say: %s", got[3].JSON())
	}
}

// Whatever is in the fields, a line is one line that a terminal shows as it is, and its JSON decodes to the event.
func TestLinesAreSafeAndComplete(t *testing.T) {
	for _, r := range table {
		for seed := range uint64(50) {
			e := r.filled(seed, seed == 0)
			got := lines(Item{seed + 1, time.Unix(int64(seed), 5).In(time.FixedZone("", 3600)), e})
			if len(got) != 1 {
				t.Fatalf("%s: %d lines", r.name, len(got))
			}
			l := got[0]
			checkShown(t, l)
			if _, _, what := l.describe(); what == "" {
				t.Fatalf("%s: the line says nothing", r.name)
			}
			var head struct {
				Seq  uint64    `json:"seq"`
				Time time.Time `json:"time"`
			}
			if err := json.Unmarshal(l.JSON(), &head); err != nil {
				t.Fatalf("%s: %v", l.JSON(), err)
			}
			if head.Seq != l.Seq || !head.Time.Equal(l.Time) {
				t.Fatalf("%s: got %+v", l.JSON(), head)
			}
			v := reflect.New(r.typ)
			if err := json.Unmarshal(l.JSON(), v.Interface()); err != nil {
				t.Fatalf("%s: %v", l.JSON(), err)
			}
			dropEmpty(v.Elem())
			if !reflect.DeepEqual(v.Elem().Interface(), any(e)) {
				t.Fatalf("%s\nsays %+v\nwant %+v", l.JSON(), v.Elem().Interface(), e)
			}
		}
	}
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"plain é 日本 😀":           "plain é 日本 😀",
		"a\x1b[31mb":             `a\u001b[31mb`,
		"a\nb\tc\x7f\u009b":      `a\u000ab\u0009c\u007f\u009b`,
		"\u202eabc\u2066":        `\u202eabc\u2066`,
		"\u200b\ufeff\u3164":     `\u200b\ufeff\u3164`,
		"\u00a0\u2028\U000e0041": `\u00a0\u2028\U000e0041`,
		`back\slash`:             `back\\slash`,
		"\xff\ufffd":             `\xff\ufffd`,
		"x\ufe0f":                `x\ufe0f`,
	} {
		if got := escape(in); got != want {
			t.Errorf("escape(%q) = %s, want %s", in, got, want)
		}
	}
}

// An agent cannot write a word that reads as one of ours, nor make a line endless.
func TestTextIsQuotedAndBounded(t *testing.T) {
	var w words
	w.text(`x" reason=granted`)
	w.pair("tool", "a b")
	w.pair("none", "")
	w.text(strings.Repeat("é", 1000))
	if got := strings.Join(w[:2], " "); got != `"x\" reason=granted" tool="a b"` {
		t.Errorf("got %s", got)
	}
	if n := utf8.RuneCountInString(w[2]); n != 400 || len(w) != 3 {
		t.Errorf("%d runes, %d words", n, len(w))
	}
}
