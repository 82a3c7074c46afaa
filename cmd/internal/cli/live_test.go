package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"sallyport/gateway/api"
)

// view is a live view without a terminal, and a clock that the test moves.
type view struct {
	*liveModel
	t     *testing.T
	w     *world
	clock time.Time
}

func newView(t *testing.T, table api.Table) *view {
	w := newWorld(t)
	v := &view{t: t, w: w, clock: now}
	e := w.env
	e.now = func() time.Time { return v.clock }
	v.liveModel = &liveModel{app: &app{env: e}, ctx: context.Background(), table: table}
	v.Update(tea.WindowSizeMsg{Width: 100, Height: 40})
	v.Update(lookMsg{table: table})
	v.screen()
	return v
}

func (v *view) screen() string { return strings.Join(v.lines(), "\n") }

// later lets the guard's time pass.
func (v *view) later() { v.screen(); v.clock = v.clock.Add(clickGuard) }

// keys presses keys, each with the last command run to its end.
func (v *view) keys(keys ...string) {
	v.t.Helper()
	for _, k := range keys {
		v.run(v.press(keyOf(k)))
	}
}

func keyOf(k string) tea.KeyPressMsg {
	codes := map[string]rune{"enter": tea.KeyEnter, "left": tea.KeyLeft, "right": tea.KeyRight, "up": tea.KeyUp, "down": tea.KeyDown,
		"pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "esc": tea.KeyEscape, "backspace": tea.KeyBackspace, "tab": tea.KeyTab}
	if c, ok := codes[k]; ok {
		return tea.KeyPressMsg{Code: c}
	}
	return tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
}

func (v *view) run(c tea.Cmd) {
	v.t.Helper()
	for range 8 {
		if c == nil {
			return
		}
		msg, ok := c().(doneMsg)
		if !ok {
			return
		}
		_, c = v.Update(msg)
	}
	v.t.Fatal("commands without end")
}

func (v *view) typing(text string) { v.t.Helper(); v.keys(append(strings.Split(text, ""), "enter")...) }

func sampleTable() api.Table { return sample()[api.PathApprovalTable].(api.Table) }

// A key that was pressed before a card had been on the screen for 0.4 s does nothing to it: not before it came, not when
// it took the place of another one.
func TestLiveGuard(t *testing.T) {
	v := newView(t, api.Table{})
	v.w.operator(sample())
	v.keys("d", "enter", "x", "m")
	v.Update(lookMsg{table: sampleTable()})
	v.keys("d") // it is in the table, and was not shown yet
	v.screen()
	v.clock = v.clock.Add(clickGuard - time.Millisecond)
	v.keys("d", "enter", "m", "x")
	if n := v.w.count(); n != 0 || v.entry != nil {
		t.Fatalf("%d commands by keys that were too early", n)
	}
	v.clock = v.clock.Add(time.Millisecond)
	v.keys("d")
	var id api.IDArgs
	if v.w.last(api.PathApprovalDeny, &id); id.ID != ap1 {
		t.Fatalf("denied %s", id.ID)
	}
	// The card goes, another one is in its place: the second d was meant for nobody.
	rest := sampleTable()
	rest.Cards = rest.Cards[1:]
	v.Update(lookMsg{table: rest})
	v.keys("d")
	v.screen()
	v.keys("d", "enter")
	if n := v.w.count(); n != 1 {
		t.Fatalf("%d commands, want the one denial", n)
	}
	if !strings.Contains(v.screen(), "[>Deny<]") {
		t.Fatal("Deny is not in focus")
	}
	// Another card that comes does not take the selection away.
	v.later()
	v.Update(lookMsg{table: sampleTable()})
	v.keys("d")
	if v.w.last(api.PathApprovalDeny, &id); id.ID != ap2 {
		t.Fatalf("denied %s, selected was %s", id.ID, ap2)
	}
}

// One passphrase opens a sitting; what a yes names is the card as it was on the screen.
func TestLiveSitting(t *testing.T) {
	v := newView(t, sampleTable())
	a := sample()
	ended := false
	a[api.PathSittingOpen] = api.Sitting{ID: "sit_1", EndsAt: now.Add(15 * time.Minute)}
	a[api.PathApprovalGrant] = func(asked) any {
		if ended {
			return api.Fail("proof_required", "this sitting has ended")
		}
		return api.Grant{ID: "gr_1"}
	}
	v.w.operator(a)
	v.later()
	v.keys("u", "enter")
	if v.w.count() != 0 || !strings.Contains(v.screen(), "passphrase, for a sitting") {
		t.Fatalf("not asked: %s", v.screen())
	}
	v.typing("correct horse")
	var args api.ApproveArgs
	q := v.w.last(api.PathApprovalGrant, &args)
	if q.env.Proof.Kind != "sitting" || q.env.Proof.Value != "sit_1" || args.ID != ap1 || args.Scope != "use" || args.CardDigest != v.table.Cards[0].CardDigest {
		t.Fatalf("%+v by %+v", args, q.env.Proof)
	}
	if strings.Contains(v.screen(), "horse") {
		t.Fatal("the passphrase is on the screen")
	}
	v.keys("n", "enter")
	v.typing("3")
	if v.w.last(api.PathApprovalGrant, &args); args.Uses != 3 || args.Scope != "run" {
		t.Fatalf("%+v", args)
	}
	args = api.ApproveArgs{}
	v.keys("t", "enter")
	v.typing("30m")
	if v.w.last(api.PathApprovalGrant, &args); !args.Until.Equal(v.clock.Add(30 * time.Minute)) {
		t.Fatalf("%+v", args)
	}
	before := v.w.count()
	v.keys("n", "enter")
	v.typing("many")
	v.keys("t", "enter")
	v.typing("yesterday")
	v.keys("r", "enter", "esc")
	if v.w.count() != before+1 {
		t.Fatalf("%d commands by what is no number and no time", v.w.count()-before)
	}
	// The gateway ended it: asked again, and the answer is not lost.
	ended = true
	v.keys("r", "enter")
	if v.sitting.ID != "" || v.entry == nil {
		t.Fatal("a sitting that is over still counts")
	}
	ended = false
	v.typing("correct horse")
	if v.w.last(api.PathApprovalGrant, &args); args.Scope != "run" {
		t.Fatalf("%+v", args)
	}
	// By its own clock too.
	v.clock = v.clock.Add(15 * time.Minute)
	v.keys("r", "enter")
	if v.entry == nil || !v.entry.hidden {
		t.Fatal("a sitting whose time is over still counts")
	}
}

// What takes away needs no passphrase, and a revocation the whole word.
func TestLiveTakesAway(t *testing.T) {
	v := newView(t, sampleTable())
	v.w.operator(sample())
	v.later()
	v.keys("x")
	v.typing("y")
	if v.w.count() != 0 {
		t.Fatal("revoked by half a word")
	}
	v.keys("x")
	v.typing("yes")
	var id api.IDArgs
	if v.w.last(api.PathRunRevoke, &id); id.ID != run1 {
		t.Fatalf("revoked %s", id.ID)
	}
	v.keys("down", "down")
	if v.at != "session-70" {
		t.Fatalf("selected %s", v.at)
	}
	v.later()
	v.keys("d", "enter", "m")
	var key api.MuteArgs
	if v.w.last(api.PathApprovalMute, &key); key.Key != "session-70" {
		t.Fatalf("muted %s", key.Key)
	}
}

// A card that wants a passkey takes no sitting: the view says what answers it, and asks for no passphrase.
func TestLivePasskey(t *testing.T) {
	table := sampleTable()
	table.Cards[0].Confirm = "passkey"
	table.Cards[0] = named(table.Cards[0])
	v := newView(t, table)
	v.w.operator(sample())
	v.later()
	v.keys("u", "enter")
	if s := v.screen(); v.w.count() != 0 || v.entry != nil || !strings.Contains(s, "--passkey") {
		t.Fatalf("screen:\n%s", s)
	}
}

// A weak agent's offer says what is accepted, and nothing else sets it.
func TestLiveWeak(t *testing.T) {
	v := newView(t, sampleTable())
	a := sample()
	a[api.PathSittingOpen] = api.Sitting{ID: "sit_1", EndsAt: now.Add(15 * time.Minute)}
	v.w.operator(a)
	v.keys("down")
	v.later()
	v.keys("r", "enter")
	v.typing("pass")
	var args api.ApproveArgs
	if v.w.last(api.PathApprovalGrant, &args); args.AcceptWeak {
		t.Fatal("accepted without being asked")
	}
	v.keys("right", "right", "right")
	if s := v.screen(); !strings.Contains(s, "[>This run (accept weak)<]") || !strings.Contains(s, "you accept that it counts") {
		t.Fatalf("screen:\n%s", s)
	}
	v.keys("enter")
	if v.w.last(api.PathApprovalGrant, &args); !args.AcceptWeak {
		t.Fatal("not accepted")
	}
}

// A card that is not the one its digest names is not answered with yes.
func TestLiveForgedCard(t *testing.T) {
	table := sampleTable()
	table.Cards[0].Summary = "GET https://api.github.com/else"
	v := newView(t, table)
	v.w.operator(sample())
	v.later()
	v.keys("r", "enter")
	if v.w.count() != 0 || v.entry != nil || !strings.Contains(v.screen(), "not the one that its digest names") {
		t.Fatalf("screen:\n%s", v.screen())
	}
}

// On every size of terminal: no line is too long, nothing of others moves the cursor, the answers are there, and the whole
// card can be read.
func TestLiveFits(t *testing.T) {
	for _, size := range [][2]int{{200, 60}, {80, 24}, {40, 20}, {24, 40}, {20, 8}, {5, 3}} {
		for _, at := range []string{ap1, ap2, "session-90"} {
			v := newView(t, sampleTable())
			v.table.Cards[0] = named(wide(v.table.Cards[0]))
			v.colour = true
			v.at = at
			v.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			what := fmt.Sprintf("%dx%d, %s", size[0], size[1], at)
			width, height := max(size[0], 20), max(size[1], 8)
			read := ""
			for range 60 {
				lines := v.lines()
				if len(lines) > height {
					t.Fatalf("%s: %d lines", what, len(lines))
				}
				for _, l := range lines {
					if n := ansi.StringWidth(l); n > width {
						t.Fatalf("%s: %d wide: %q", what, n, l)
					}
					plain := ansi.Strip(l)
					for _, r := range plain {
						if unsafe(r) {
							t.Fatalf("%s: %q", what, plain)
						}
					}
					read += plain + "\n"
				}
				if was := v.scroll; v.press(keyOf("pgdown")) != nil || v.lines() == nil || v.scroll == was {
					break
				}
			}
			if at != "session-90" && !strings.Contains(strings.ReplaceAll(read, "\n", ""), "[>Deny<]") {
				t.Errorf("%s: no answers:\n%s", what, read)
			}
			if at == ap1 && size[1] >= 20 {
				for _, part := range []string{"LAST-LINE", "words", "agent says"} {
					if !strings.Contains(read, part) {
						t.Errorf("%s: %q cannot be read:\n%s", what, part, read)
					}
				}
			}
		}
	}
}

// wide is a card of many lines, some of wide characters.
func wide(c api.Approval) api.Approval {
	c.Summary += "\n" + strings.Repeat("漢字", 40) + strings.Repeat("\nheader X: y", 30) + "\nLAST-LINE"
	return c
}

// FuzzLiveCard: whatever a card holds, the screen stays whole.
func FuzzLiveCard(f *testing.F) {
	f.Add("POST /x\nbody", hostile, uint8(80), uint8(24))
	f.Add(strings.Repeat("é漢\u200d", 50), "\x1b]0;t\a", uint8(21), uint8(9))
	f.Fuzz(func(t *testing.T, summary, reason string, width, height uint8) {
		table := sampleTable()
		c := table.Cards[0]
		c.Summary, c.Reason, c.Agent.Command, c.Target = summary, reason, reason, summary
		table.Cards[0] = c
		m := &liveModel{app: &app{env: env{getenv: func(string) string { return "" }, now: func() time.Time { return now }}}, table: table}
		m.Update(tea.WindowSizeMsg{Width: int(width), Height: int(height)})
		m.choose(0)
		for _, l := range m.lines() {
			if ansi.StringWidth(l) > max(int(width), 80) || strings.ContainsFunc(l, unsafe) {
				t.Fatalf("%q", l)
			}
		}
	})
}
