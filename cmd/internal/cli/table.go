package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// column is one of a listing's. Its sort says what may become of it where a
// terminal is too narrow for all.
type column struct {
	head string
	sort columnSort
}

type columnSort uint8

const (
	fixed columnSort = iota // stays as it is
	words                   // may be clipped
	vital                   // may be clipped once words are as narrow as they get
	ids                     // may be shown by the short end that every command takes
	times                   // may be told by its date, or today's by its hour
)

// Of a table on a terminal.
const (
	gap   = 2 // blanks between two columns
	least = 8 // what is left of a clipped cell
)

// table prints rows below their heads, aligned, every cell escaped; an empty cell is
// "-". On a terminal it fits its width as far as that goes; elsewhere every cell is whole.
func (a *app) table(columns []column, rows [][]string) error {
	grid := make([][]string, 0, len(rows)+1)
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.head
	}
	grid = append(grid, heads)
	for _, r := range rows {
		cells := make([]string, len(r))
		for i, c := range r {
			if cells[i] = escape(c); c == "" {
				cells[i] = "-"
			}
		}
		grid = append(grid, cells)
	}
	if width := a.width(); width > 0 {
		fit(grid, columns, width, a.now())
	}
	t := tabwriter.NewWriter(a.out, 0, 0, gap, ' ', 0)
	for _, cells := range grid {
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// fit shortens cells until a line of grid has at most width characters: ids and times
// first, then the widest words.
func fit(grid [][]string, columns []column, width int, now time.Time) {
	widths := make([]int, len(columns))
	over := func() int {
		sum := gap * (len(columns) - 1)
		for i := range columns {
			widths[i] = 0
			for _, cells := range grid {
				widths[i] = max(widths[i], utf8.RuneCountInString(cells[i]))
			}
			sum += widths[i]
		}
		return sum - width
	}
	if over() <= 0 {
		return
	}
	for i, c := range columns {
		for _, cells := range grid[1:] {
			switch c.sort {
			case ids:
				cells[i] = shortID(cells[i])
			case times:
				cells[i] = shortStamp(cells[i], now)
			}
		}
	}
	for left := over(); left > 0; left-- {
		i := widest(columns, widths, words)
		if i < 0 {
			i = widest(columns, widths, vital)
		}
		if i < 0 {
			break // it is as narrow as it gets
		}
		widths[i]--
	}
	for i, c := range columns {
		for _, cells := range grid {
			if c.sort == words || c.sort == vital {
				cells[i] = clip(cells[i], widths[i])
			}
		}
	}
}

// widest is the widest column of a sort that can still be clipped; -1: none can.
func widest(columns []column, widths []int, sort columnSort) int {
	found := -1
	for i, c := range columns {
		if c.sort == sort && widths[i] > least && (found < 0 || widths[i] > widths[found]) {
			found = i
		}
	}
	return found
}

// clip cuts s to n characters.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// shortID is an id by its kind and its end, as Sessions and Activity print it.
func shortID(id string) string {
	kind, rest, ok := strings.Cut(id, "_")
	if !ok || len(rest) != ulidLength {
		return id
	}
	return kind + "_" + rest[ulidLength-shortEnd:]
}

// shortStamp is a stamp by its date, or today's by its hour.
func shortStamp(s string, now time.Time) string {
	date, hour, ok := strings.Cut(s, " ")
	switch {
	case !ok:
		return s
	case date == now.UTC().Format(time.DateOnly):
		return hour
	default:
		return date
	}
}
