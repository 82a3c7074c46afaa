package jsonline

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLines(t *testing.T) {
	full := strings.Repeat("a", Limit)
	cases := []struct{ name, in, want string }{
		{"empty", "", "EOF"},
		{"one", "x\n", "x EOF"},
		{"no newline at the end", "x\ny", "x y EOF"},
		{"blank", "\n\nx\n", "  x EOF"},
		{"carriage return stays", "x\r\n", "x\r EOF"},
		{"limit", full + "\ny\n", "[16777216] y EOF"},
		{"limit at the end", full, "[16777216] EOF"},
		{"one past", full + "a\ny\n", "LONG y EOF"},
		{"17 MiB", strings.Repeat("a", 17<<20) + "\ny\n", "LONG y EOF"},
		{"long at the end", full + "ab", "LONG EOF"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := NewReader(strings.NewReader(c.in))
			var got []string
			for range 10 {
				b, err := l.Next()
				switch {
				case errors.Is(err, ErrTooLong):
					got = append(got, "LONG")
				case err == io.EOF:
					got = append(got, "EOF")
				case err != nil:
					t.Fatal(err)
				case len(b) > 100:
					got = append(got, "[16777216]")
					if len(b) != Limit {
						t.Fatalf("%d bytes", len(b))
					}
				default:
					got = append(got, string(b))
				}
				if err == io.EOF {
					break
				}
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Fatalf("got %q, want %q", s, c.want)
			}
		})
	}
}

func TestLinesAreTheCallers(t *testing.T) {
	l := NewReader(iotest.OneByteReader(strings.NewReader("first\nsecond\n")))
	a, err := l.Next()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Next(); err != nil {
		t.Fatal(err)
	}
	if string(a) != "first" {
		t.Fatalf("the first line became %q", a)
	}
}

func TestLinesBrokenReader(t *testing.T) {
	broken := errors.New("broken")
	l := NewReader(io.MultiReader(strings.NewReader("x\npartial"), iotest.ErrReader(broken)))
	if b, err := l.Next(); string(b) != "x" || err != nil {
		t.Fatalf("%q, %v", b, err)
	}
	if b, err := l.Next(); !errors.Is(err, broken) { // half a line of a dead host is no message
		t.Fatalf("%q, %v", b, err)
	}
}
