package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"sallyport/gateway/api"
)

// liveModel is the live view's state. Only bubbletea's one loop touches it.
type liveModel struct {
	*app
	ctx    context.Context
	colour bool

	table api.Table
	fault error // why the table could not be had just now
	note  string
	busy  bool // a command is under way

	width, height int
	at            string    // what is selected: a card's id, or a chain's key
	since         time.Time // it is on the screen since then; zero: not yet
	focus         int       // of answers
	scroll, page  int       // of the selected card's lines
	entry         *typing
	sitting       api.Sitting
}

// intent is a yes that the operator means to give.
type intent struct {
	args  api.ApproveArgs
	gives string
}

// answer is one button.
type answer struct {
	label string
	key   string
	deny  bool
	offer api.Offer
	ask   string // what is typed first: uses, until
}

// typing is a line being typed.
type typing struct {
	ask    string
	text   []rune
	hidden bool
	done   func(text string) tea.Cmd
}

// entryLimit is in characters.
const entryLimit = 1024

func (m *liveModel) Init() tea.Cmd { return m.look }

// card is the selected one.
func (m *liveModel) card() (api.Approval, bool) {
	for _, c := range m.table.Cards {
		if c.ID == m.at {
			return c, true
		}
	}
	return api.Approval{}, false
}

// chain is the selected session.
func (m *liveModel) chain() (api.Chain, bool) {
	for _, c := range m.table.More {
		if c.Key == m.at && c.Key != "" {
			return c, true
		}
	}
	return api.Chain{}, false
}

// order lists what can be selected.
func (m *liveModel) order() (out []string) {
	for _, c := range m.table.Cards {
		out = append(out, c.ID)
	}
	for _, c := range m.table.More {
		if c.Key != "" {
			out = append(out, c.Key)
		}
	}
	return out
}

// choose selects what stands by steps from what was selected; it is new on the screen then, with Deny in focus.
func (m *liveModel) choose(steps int) {
	all := m.order()
	if len(all) == 0 {
		m.at, m.since, m.focus, m.scroll = "", time.Time{}, 0, 0
		return
	}
	i := 0
	for j, id := range all {
		if id == m.at {
			i = min(max(j+steps, 0), len(all)-1)
		}
	}
	if all[i] != m.at {
		m.at, m.since, m.focus, m.scroll = all[i], time.Time{}, 0, 0
	}
}

// ready: what is selected has been on the screen for long enough that a key is meant for it.
func (m *liveModel) ready() bool {
	return !m.since.IsZero() && m.now().Sub(m.since) >= clickGuard
}

// buttonsOf are the answers that a card takes.
func buttonsOf(c api.Approval) []answer {
	out := []answer{{label: "Deny", key: "d", deny: true}}
	for _, o := range c.Offers {
		weak := ""
		if o.Accept != "" {
			weak = " (accept weak)"
		}
		if o.Scope == "use" {
			out = append(out, answer{label: "This call" + weak, key: "u", offer: o})
			continue
		}
		out = append(out, answer{label: "This run" + weak, key: "r", offer: o},
			answer{label: "N calls" + weak, key: "n", offer: o, ask: "uses"},
			answer{label: "Until" + weak, key: "t", offer: o, ask: "until"})
	}
	return out
}

func (m *liveModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case lookMsg:
		if m.fault = msg.err; msg.err == nil {
			m.table = msg.table
		}
		m.choose(0)
		return m, tea.Tick(lookEvery, func(time.Time) tea.Msg { return m.look() })
	case doneMsg:
		return m, m.done(msg)
	case tea.KeyPressMsg:
		return m, m.press(msg)
	}
	return m, nil
}

func (m *liveModel) done(msg doneMsg) tea.Cmd {
	m.busy, m.note = false, msg.said
	switch {
	case msg.err != nil:
		m.note = inLine(msg.err)
		if msg.again != nil { // the sitting is over
			m.sitting = api.Sitting{}
			m.passphrase(msg.again)
		}
	case msg.sitting != nil:
		m.sitting = *msg.sitting
		if msg.again != nil {
			return m.approve(*msg.again)
		}
	}
	return nil
}

// passphrase asks for it, to open a sitting and then do what waits for it.
func (m *liveModel) passphrase(x *intent) {
	m.entry = &typing{ask: "passphrase, for a sitting of 15 minutes: ", hidden: true, done: func(text string) tea.Cmd { return m.open(text, x) }}
}

func (m *liveModel) press(k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "ctrl+c":
		return tea.Quit
	case "ctrl+z":
		m.since = time.Time{}
		return tea.Suspend
	}
	if m.entry != nil {
		return m.typed(k)
	}
	switch k.String() {
	case "q":
		return tea.Quit
	case "up", "k":
		m.choose(-1)
	case "down", "j":
		m.choose(1)
	case "pgdown", "space":
		m.scroll += max(m.page, 1) // the view keeps it within the card
	case "pgup", "b":
		m.scroll = max(0, m.scroll-max(m.page, 1))
	default:
		if m.busy || !m.ready() {
			return nil
		}
		return m.act(k)
	}
	return nil
}

// act is a key that does something to what is selected, which has been on the screen for a while.
func (m *liveModel) act(k tea.KeyPressMsg) tea.Cmd {
	c, isCard := m.card()
	if !isCard {
		if x, ok := m.chain(); ok && k.String() == "m" && !x.Muted {
			return m.mute(x.Key, x.Text)
		}
		return nil
	}
	all := buttonsOf(c)
	switch key := k.String(); key {
	case "left", "shift+tab", "h":
		m.focus = max(0, m.focus-1)
	case "right", "tab", "l":
		m.focus = min(len(all)-1, m.focus+1)
	case "d":
		return m.deny(c)
	case "enter":
		return m.give(c, all[min(m.focus, len(all)-1)])
	case "m":
		if c.Origin.Chain != "" {
			return m.mute(c.Origin.Chain, c.Origin.Chain)
		}
	case "x":
		m.entry = &typing{ask: "revoke " + shortID(c.AgentRun) + " for good? type yes: ", done: func(text string) tea.Cmd {
			if text != "yes" {
				return nil
			}
			return m.revoke(c.AgentRun)
		}}
	default:
		for i, x := range all {
			if x.key == key {
				m.focus = i
				break
			}
		}
	}
	return nil
}

// give presses a button. A number or a time is typed first; each yes names the card as it was on the screen.
func (m *liveModel) give(c api.Approval, x answer) tea.Cmd {
	if x.deny {
		return m.deny(c)
	}
	if err := checkCard(c); err != nil {
		m.note = inLine(err)
		return nil
	}
	args := api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: x.offer.Scope, AcceptWeak: x.offer.Accept != ""}
	switch x.ask {
	case "uses":
		m.entry = &typing{ask: "how many calls: ", done: func(text string) tea.Cmd {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				m.note = "that is no number of calls"
				return nil
			}
			args.Uses = n
			return m.yes(c, args)
		}}
	case "until":
		m.entry = &typing{ask: "how long (30m, 2h): ", done: func(text string) tea.Cmd {
			if err := m.scope(&args, text, false); text == "" || err != nil {
				m.note = "that is no time to come"
				return nil
			}
			return m.yes(c, args)
		}}
	default:
		return m.yes(c, args)
	}
	return nil
}

func (m *liveModel) yes(c api.Approval, args api.ApproveArgs) tea.Cmd {
	if c.Confirm == "passkey" {
		m.note = "this credential wants a passkey: sp approve " + shortID(c.ID) + " --passkey"
		return nil
	}
	text, _ := gives(c, args)
	x := intent{args, text}
	if m.sitting.ID == "" || !m.now().Before(m.sitting.EndsAt) {
		m.sitting = api.Sitting{}
		m.passphrase(&x)
		return nil
	}
	return m.approve(x)
}

// typed takes a key into the line being typed.
func (m *liveModel) typed(k tea.KeyPressMsg) tea.Cmd {
	e := m.entry
	switch k.String() {
	case "esc":
		m.entry = nil
	case "enter":
		m.entry = nil
		text := string(e.text)
		clear(e.text)
		if e.hidden && text == "" {
			return nil
		}
		return e.done(strings.TrimSuffix(text, "\n"))
	case "backspace":
		if n := len(e.text); n > 0 {
			e.text = e.text[:n-1]
		}
	case "ctrl+u":
		e.text = e.text[:0]
	default:
		if len(e.text)+len(k.Text) <= entryLimit {
			e.text = append(e.text, []rune(k.Text)...)
		}
	}
	return nil
}
