package httpexec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// coded is body under one coding.
func coded(t testing.TB, name, body string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch name {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		w = z
	default:
		return body
	}
	io.WriteString(w, body)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var allCodings = []string{"gzip", "deflate", "br", "zstd"}

func coding(name, body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", name, len(body), body)
}

func TestOneCodingIsOpened(t *testing.T) {
	hostile(t, "H19", func(t *testing.T) {
		echo := strings.Repeat("x ", 300) + secret + strings.Repeat(" y", 300)
		for _, name := range allCodings {
			r, body := shown(t, bearer(), coding(name, coded(t, name, echo)))
			if r.Hits != 1 || !r.Complete || body != strings.Replace(echo, secret, "[redacted]", 1) || r.Headers["Content-Encoding"] != "" || r.Headers["Content-Length"] != "" {
				t.Errorf("%s: %+v, %q", name, r, body)
			}
			leaks(t, r, body)
		}
	})
	hostile(t, "H22", func(t *testing.T) {
		for _, name := range allCodings {
			twice := coded(t, name, coded(t, name, secret))
			for _, said := range []string{name + ", " + name, name + "\r\nContent-Encoding: " + name, name + ",x", "x-" + name + "x"} {
				if r, body := shown(t, bearer(), coding(said, twice)); !r.Withheld || body != "" {
					t.Errorf("%s: %+v, %q", said, r, body)
				}
			}
			for _, other := range allCodings {
				if other == name {
					continue
				}
				if r, body := shown(t, bearer(), coding(other, coded(t, name, secret))); !r.Withheld || r.Complete {
					t.Errorf("%s said to be %s: %+v, %q", name, other, r, body)
				}
			}
			whole := coded(t, name, strings.Repeat("a body of some length; ", 100))
			for _, short := range []string{whole[:1], whole[:len(whole)-1], ""} { // whole for HTTP, cut for its coding
				if r, body := shown(t, bearer(), coding(name, short)); short != "" && !r.Withheld || r.Complete && short != "" {
					t.Errorf("%s, %d of %d bytes: %+v, %q", name, len(short), len(whole), r, body)
				}
			}
		}
	})
}

// A coded body that ends early is told as such, and a guess at its end shows nothing.
func TestCutCoding(t *testing.T) {
	for _, name := range allCodings {
		whole := coded(t, name, strings.Repeat("a body of some length; ", 100))
		cut := whole[:len(whole)-3]
		answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", name, len(whole), cut)
		if r, _ := shown(t, bearer(), answer); r.Complete || r.Outcome != Confirmed || r.Detail == "" {
			t.Errorf("%s: %+v", name, r)
		}
		// Bytes after the coding's own end are no part of it.
		if r, body := shown(t, bearer(), coding(name, whole+secret)); r.Complete || strings.Contains(body, secret) {
			t.Errorf("%s and more: %+v", name, r)
		}
	}
}

func TestBombs(t *testing.T) {
	hostile(t, "H23", func(t *testing.T) {
		zeros := strings.Repeat("\x00", 96<<20)
		for _, name := range allCodings {
			bomb := coded(t, name, zeros)
			srv := serveRaw(t, answering(coding(name, bomb)))
			c := NewClient(ClientOptions{BodyLimit: 256 << 20})
			t.Cleanup(c.Close)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r, body := call(t, c, bearer(), Input{URL: srv.url})
			runtime.ReadMemStats(&after)
			most := ratioFree + maxRatio*len(bomb)
			if !r.Truncated || r.Complete || r.Outcome != Confirmed || len(body) > min(most, maxDecoded) {
				t.Errorf("%s: %+v, %d bytes of %d shown", name, r, len(body), len(bomb))
			}
			// The test's own buffer grows by doubling; the rest is windows.
			if used := after.TotalAlloc - before.TotalAlloc; used > uint64(4*min(most, maxDecoded)+(32<<20)) {
				t.Errorf("%s: %d MiB allocated", name, used>>20)
			}
		}
	})
}

// A coding that goes on for ever and opens to nothing ends too.
func TestEmptyBomb(t *testing.T) {
	empty := map[string]string{"gzip": coded(t, "gzip", ""), "zstd": "\x50\x2a\x4d\x18\x00\x00\x00\x00"} // a member, a skippable frame
	for name, one := range empty {
		if name == "gzip" && long(0, 1) == 0 {
			continue // slow
		}
		src := &endless{one: one}
		r, _ := decoded([]string{name}, src)
		if n, err := io.Copy(io.Discard, io.LimitReader(r, 1)); n != 0 || !errors.Is(err, errTooLong) || src.n > maxDecoded+(1<<20) {
			t.Errorf("%s: %d bytes of %d, %v", name, n, src.n, err)
		}
	}
}

// endless says one thing over and over, up to twice what may be read.
type endless struct {
	one string
	n   int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.n > 2*maxDecoded {
		return 0, io.EOF
	}
	n := 0
	for n+len(e.one) <= len(p) {
		n += copy(p[n:], e.one)
	}
	e.n += n
	return n, nil
}

// FuzzCoding: whatever comes, it ends, and the secret isn't shown.
func FuzzCoding(f *testing.F) {
	for _, name := range allCodings {
		f.Add(name, []byte(coded(f, name, "some "+secret+" text")))
	}
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		r, ok := decoded([]string{name}, bytes.NewReader(body))
		if !ok {
			return
		}
		n, err := io.Copy(io.Discard, r)
		if n > int64(ratioFree+maxRatio*len(body)) || err == io.EOF {
			t.Fatalf("%d bytes of %d, %v", n, len(body), err)
		}
	})
}
