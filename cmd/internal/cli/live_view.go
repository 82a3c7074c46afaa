package cli

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"sallyport/gateway/api"
)

// The live view: a line of state, what can be selected, the selected card, and the answers. Every text of others is
// escaped before its width is measured, so that it keeps to its line.

// Styles, as SGR parameters.
const (
	bold    = "1"
	faint   = "2"
	reverse = "7"
)

// labelWidth is how wide the labels of a card are.
const labelWidth = 11

// leastDetail is how many lines of the card are kept where the screen is low.
const leastDetail = 3

// style marks s where colours are wanted; nothing is told by colour alone.
func (m *liveModel) style(code, s string) string {
	if !m.colour || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (m *liveModel) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "sp watch"
	return v
}

// lines is the screen. What it shows of the selection counts as seen from now on.
func (m *liveModel) lines() []string {
	width, height := max(m.width, 20), max(m.height, 8)
	if m.width == 0 {
		width, height = 80, 24
	}
	top := m.head(width)
	list := m.list(width, max(3, height/4))
	bottom := m.foot(width)
	room := max(height-len(top)-len(list)-len(bottom)-1, leastDetail)
	detail := m.detail(width, room)
	out := append(top, list...)
	out = append(out, m.style(faint, strings.Repeat("-", width)))
	out = append(out, detail...)
	for len(out)+len(bottom) < height {
		out = append(out, "")
	}
	out = append(out, bottom...)
	if len(out) > height { // the answers stay, whatever goes
		out = append(out[:max(height-len(bottom), 0)], bottom[max(len(bottom)-height, 0):]...)
	}
	if m.since.IsZero() && m.at != "" {
		m.since = m.now()
	}
	return out
}

// fitLine cuts a line to the screen.
func fitLine(s string, width int) string { return ansi.Truncate(s, width, "…") }

// wrap breaks a text into lines of at most width.
func wrap(s string, width int) []string {
	return strings.Split(ansi.Wrap(escape(s), max(width, 4), ""), "\n")
}

func (m *liveModel) head(width int) []string {
	state := fmt.Sprintf("%d cards", len(m.table.Cards))
	if len(m.table.Cards) == 1 {
		state = "1 card"
	}
	sat := "no sitting"
	if m.sitting.ID != "" {
		sat = "sitting ends " + m.left(m.sitting.EndsAt)
	}
	out := []string{m.style(bold, fitLine("sp watch: "+state+", "+sat, width))}
	if m.fault != nil {
		out = append(out, m.style(red, fitLine(escape(inLine(m.fault)), width)))
	}
	if n := m.table.Unproved; n > 0 {
		for _, l := range wrap(unprovedLine(n), width) {
			out = append(out, m.style(red, l))
		}
	}
	return out
}

// list shows what can be selected, as much of it as there is room for around the selection.
func (m *liveModel) list(width, room int) (out []string) {
	at := 0
	add := func(id, text string) {
		mark := "  "
		if id != "" && id == m.at {
			at, mark = len(out), "> "
		}
		line := fitLine(mark+escape(text), width)
		if mark == "> " {
			line = m.style(bold, line)
		}
		out = append(out, line)
	}
	for _, c := range m.table.Cards {
		first, _, _ := strings.Cut(c.Summary, "\n")
		add(c.ID, fmt.Sprintf("%-11s %s  %s  (%s, %s)", c.Effect, first, c.Credential, c.Agent.Command, m.left(c.ExpiresAt)))
	}
	for _, c := range m.table.More {
		text := moreLine(c)
		if i := strings.LastIndex(text, " (sp "); i > 0 && c.Key != "" {
			text = text[:i]
		}
		add(c.Key, text)
	}
	if len(out) == 0 {
		return []string{m.style(faint, fitLine("  nothing waits", width))}
	}
	if len(out) > room {
		from := min(max(at-room/2, 0), len(out)-room)
		out = out[from : from+room]
	}
	return out
}

// detail is the selected card, from where it was scrolled to.
func (m *liveModel) detail(width, room int) []string {
	c, ok := m.card()
	if !ok {
		if x, ok := m.chain(); ok {
			return []string{fitLine(fmt.Sprintf("%d questions wait without a card. m mutes them.", x.Waiting), width)}
		}
		return nil
	}
	var all []string
	for _, l := range m.observed(c) {
		all = append(all, m.cardLine(l, width)...)
	}
	all = append(all, m.cardLine(cardLine{label: "words", text: api.Words(c.CardDigest)}, width)...)
	for _, o := range c.Offers {
		label, text := "this "+strings.Replace(o.Scope, "use", "call", 1), o.Gives
		if o.Accept != "" {
			label, text = "or", text+"; you accept "+o.Accept
		}
		all = append(all, m.cardLine(cardLine{label: label, text: "gives " + text, alarm: o.Accept != ""}, width)...)
	}
	if said := claimed(c); len(said) > 0 {
		all = append(all, m.style(faint, fitLine("-- the agent says --", width)))
		for _, l := range said {
			all = append(all, m.cardLine(l, width)...)
		}
	}
	if len(all) <= room {
		m.scroll = 0
		return all
	}
	room-- // for the line that says there is more
	m.page = room
	m.scroll = min(m.scroll, len(all)-room)
	more := len(all) - room - m.scroll
	out := append([]string{}, all[m.scroll:m.scroll+room]...)
	say := fmt.Sprintf("-- %d more lines: page down --", more)
	if more == 0 {
		say = "-- the end: page up --"
	}
	return append(out, m.style(amber, fitLine(say, width)))
}

func (m *liveModel) cardLine(l cardLine, width int) (out []string) {
	indent := min(labelWidth, width/3)
	for i, part := range wrap(l.text, width-indent) {
		label := ""
		if i == 0 {
			label = l.label
		}
		if l.alarm {
			part = m.style(amber, part)
		}
		out = append(out, m.style(faint, fmt.Sprintf("%-*s", indent, ansi.Truncate(label, indent-1, "")))+part)
	}
	return out
}

// foot is what a yes gives, the answers, and the last word.
func (m *liveModel) foot(width int) (out []string) {
	c, ok := m.card()
	if ok {
		all := buttonsOf(c)
		m.focus = min(m.focus, len(all)-1)
		if x := all[m.focus]; x.deny {
			out = append(out, fitLine("no: this call is refused", width))
		} else {
			text := "yes gives: " + x.offer.Gives
			if x.offer.Accept != "" {
				text += "; and you accept " + x.offer.Accept
			}
			given := wrap(text, width)
			if most := max(2, m.height/5); len(given) > most { // the whole of it stands on the card
				given = append(given[:most-1], fitLine(given[most-1]+"…", width-1))
			}
			for _, l := range given {
				out = append(out, m.style(bold, l))
			}
		}
		out = append(out, m.buttons(all, width)...)
	}
	switch {
	case m.entry != nil:
		text := m.entry.ask
		if !m.entry.hidden {
			text += string(m.entry.text)
		}
		out = append(out, fitLine(escape(text)+"_", width), fitLine("enter: go on, esc: leave it", width))
	case m.busy:
		out = append(out, fitLine("…", width), "")
	default:
		out = append(out, fitLine(escape(m.note), width), m.style(faint, fitLine("arrows, enter  d deny  m mute  x revoke run  q leave", width)))
	}
	return out
}

// buttons are the answers in a line or two; where they would take more, the one in focus alone.
func (m *liveModel) buttons(all []answer, width int) []string {
	out := m.everyButton(all, width)
	if len(out) <= 2 {
		return out
	}
	one := fmt.Sprintf("[>%s<] %d of %d", all[m.focus].label, m.focus+1, len(all))
	return []string{m.style(reverse, fitLine(one, width))}
}

func (m *liveModel) everyButton(all []answer, width int) (out []string) {
	line, used := "", 0
	for i, x := range all {
		text := "[ " + x.label + " ]"
		if i == m.focus {
			text = "[>" + x.label + "<]"
		}
		text = fitLine(text, width)
		if n := ansi.StringWidth(text); used > 0 && used+1+n > width {
			out, line, used = append(out, line), "", 0
		}
		if used > 0 {
			line, used = line+" ", used+1
		}
		used += ansi.StringWidth(text)
		if i == m.focus {
			text = m.style(reverse, text)
		}
		line += text
	}
	return append(out, line)
}
