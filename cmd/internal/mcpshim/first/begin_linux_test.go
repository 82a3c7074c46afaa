package first

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

const opening = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
`

// host is a pair of pipes: what is said on in, what is heard from out.
func host(t *testing.T, say string) (in, out int, hear func() string, closeOut func()) {
	t.Helper()
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close(); w.Close() })
		return r, w
	}
	inR, inW := pipe()
	outR, outW := pipe()
	if _, err := io.WriteString(inW, say); err != nil {
		t.Fatal(err)
	}
	hear = func() string {
		outW.Close()
		b, err := io.ReadAll(outR)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	return int(inR.Fd()), int(outW.Fd()), hear, func() { outR.Close() }
}

func TestBegin(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"x"}}` + "\n"
	for _, c := range []struct {
		name, say string
		answers   int
		rest      string
		after     Session
	}{
		{"silence", "", 0, "", Session{}},
		{"the whole opening", opening, 2, "", Session{newest, true}},
		{"and a call", opening + call + opening, 2, call + opening, Session{newest, true}},
		{"and half a line", opening + call[:9], 2, call[:9], Session{newest, true}},
		{"something else first", call + opening, 0, call + opening, Session{}},
		{"a blank line", "\n" + opening, 0, "\n" + opening, Session{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, out, hear, _ := host(t, c.say)
			var s Session
			rest, ended := s.begin(in, out)
			if ended {
				t.Error("the host has not ended")
			}
			if string(rest) != c.rest || s != c.after {
				t.Errorf("left %q, session %+v", rest, s)
			}
			if heard := hear(); strings.Count(heard, "\n") != c.answers || c.answers > 0 && !strings.HasPrefix(heard, `{"jsonrpc":"2.0","id":1,"result":{`) {
				t.Errorf("heard %q", heard)
			}
		})
	}
}

// Where the host's stream keeps packets apart, no part of one is lost.
func TestBeginPackets(t *testing.T) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(ends[0])
	defer syscall.Close(ends[1])
	_, out, hear, _ := host(t, "")
	said := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("x", 20_000) + `"}}` + "\n"
	if _, err := syscall.Write(ends[0], []byte(said)); err != nil {
		t.Fatal(err)
	}
	var s Session
	if rest, _ := s.begin(ends[1], out); len(rest) != 0 {
		t.Errorf("%d bytes left of %d", len(rest), len(said))
	}
	if heard := hear(); strings.Count(heard, "\n") != 1 {
		t.Errorf("heard %q", heard)
	}
}

// A host that hears nothing any more: main is to find that out too, by the same line.
func TestBeginUnheard(t *testing.T) {
	in, out, _, closeOut := host(t, opening)
	closeOut()
	var s Session
	if rest, _ := s.begin(in, out); string(rest) != opening || s != (Session{}) {
		t.Errorf("left %q, session %+v", rest, s)
	}
}

// A host that is slow to read a stream that doesn't block gets every byte.
func TestBeginSlowHost(t *testing.T) {
	const lists = 40 // far more than a pipe holds
	in, out, hear, _ := host(t, opening+strings.Repeat(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`+"\n", lists))
	if err := syscall.SetNonblock(out, true); err != nil {
		t.Fatal(err)
	}
	dup, err := syscall.Dup(out) // hear closes the other one, to hear the end
	if err != nil {
		t.Fatal(err)
	}
	rest := make(chan []byte)
	go func() {
		var s Session
		b, _ := s.begin(in, dup)
		syscall.Close(dup)
		rest <- b
	}()
	if heard := hear(); strings.Count(heard, "\n") != lists+2 || !strings.HasSuffix(heard, "}\n") {
		t.Errorf("%d lines heard", strings.Count(heard, "\n"))
	}
	if b := <-rest; len(b) != 0 {
		t.Errorf("left %q", b)
	}
}
