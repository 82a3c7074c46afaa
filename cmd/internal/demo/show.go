package demo

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// screen tells the story to a person. What it wrote is kept: the credentials are looked for there too.
type screen struct {
	w     io.Writer
	kept  bytes.Buffer
	color bool
	steps int
}

func newScreen(w io.Writer) *screen {
	s := &screen{}
	s.w = io.MultiWriter(&s.kept, w)
	if f, ok := w.(*os.File); ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" {
		s.color = term.IsTerminal(int(f.Fd()))
	}
	return s
}

// Attributes of ECMA-48.
const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
)

func (s *screen) paint(attr, text string) string {
	if !s.color {
		return text
	}
	return "\x1b[" + attr + "m" + text + "\x1b[0m"
}

// line writes one line as it is. A screen that is gone does not change what is true, so errors are not looked at.
func (s *screen) line(text string) { fmt.Fprintln(s.w, text) }

func (s *screen) title(text string) { s.line(s.paint(bold, text)) }

func (s *screen) step(title string) {
	s.steps++
	s.line(fmt.Sprintf("\n%s  %s", s.paint(dim, fmt.Sprintf("%2d", s.steps)), s.paint(bold, title)))
}

func (s *screen) say(format string, args ...any) { s.line("    " + fmt.Sprintf(format, args...)) }

func (s *screen) good(claim string) { s.line("  " + s.paint(green, "✓") + " " + claim) }

func (s *screen) bad(name, found string) {
	s.line("  " + s.paint(red, "✗") + " " + name + ": " + found)
}

// quote shows somebody else's words, set off from the story's.
func (s *screen) quote(head, text string) {
	if head != "" {
		s.say("%s", head)
	}
	for l := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		s.line(s.paint(dim, "    │ "+l))
	}
}
