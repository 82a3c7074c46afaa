package scrub

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
)

const secret = `ghp_Zk"9/+x<&>\é 7Qf~ö=`

func through(s *Set, complete bool, chunks ...[]byte) (string, int) {
	var b bytes.Buffer
	w := s.Writer(&b)
	for _, c := range chunks {
		if n, err := w.Write(c); n != len(c) || err != nil {
			return fmt.Sprint("short write: ", n, err), -1
		}
	}
	hits, err := w.Close(complete)
	if err != nil {
		return err.Error(), -1
	}
	return b.String(), hits
}

// H19: what upstreams do to a header when they give it back.
func TestRenderings(t *testing.T) {
	goJSON := func(s string) string { b, _ := json.Marshal(s); return strings.Trim(string(b), `"`) }
	std, urlEnc := base64.StdEncoding, base64.URLEncoding
	for _, c := range []struct{ name, form string }{
		{"raw", secret},
		{"hex", hex.EncodeToString([]byte(secret))},
		{"HEX", strings.ToUpper(hex.EncodeToString([]byte(secret)))},
		{"base64", std.EncodeToString([]byte(secret))},
		{"base64 unpadded", base64.RawStdEncoding.EncodeToString([]byte(secret))},
		{"base64url", urlEnc.EncodeToString([]byte(secret))},
		{"base64 in a query", url.QueryEscape(std.EncodeToString([]byte(secret)))},
		{"base64 in PHP's JSON", strings.ReplaceAll(std.EncodeToString([]byte(secret)), "/", `\/`)},
		{"Go JSON", goJSON(secret)},
		{"QueryEscape", url.QueryEscape(secret)},
		{"PathEscape", url.PathEscape(secret)},
		{"percent, lower case", strings.ToLower(url.QueryEscape("\x00" + "é"))[3:] + ""},
		{"Python json.dumps", `ghp_Zk\"9/+x<&>\\\u00e9 7Qf~\u00f6=`},
		{"PHP json_encode", `ghp_Zk\"9\/+x<&>\\\u00e9 7Qf~\u00f6=`},
		{"node JSON.stringify", `ghp_Zk\"9/+x<&>\\é 7Qf~ö=`},
		{".NET", `ghp_Zk\u00229/\u002Bx\u003C\u0026\u003E\\\u00E9 7Qf~\u00F6=`},
		{"encodeURIComponent", `ghp_Zk%229%2F%2Bx%3C%26%3E%5C%C3%A9%207Qf~%C3%B6%3D`},
		{"Python quote", `ghp_Zk%229/%2Bx%3C%26%3E%5C%C3%A9%207Qf~%C3%B6%3D`},
	} {
		s := New([]byte(secret))
		if c.name == "percent, lower case" {
			s = New([]byte("éé<>éé<>"))
			c.form = "%c3%a9%c3%a9%3c%3e%c3%a9%c3%a9%3c%3e"
		}
		got, hits := through(s, true, []byte(`{"echo":"`+c.form+`","n":1}`))
		if want := `{"echo":"[redacted]","n":1}`; got != want || hits != 1 {
			t.Errorf("%s: got %q, %d hits", c.name, got, hits)
		}
	}
}

// base64 of a text that holds the secret anywhere leaves no bit of it.
func TestBase64Alignments(t *testing.T) {
	for n := 8; n < 14; n++ {
		key := []byte("S3cr3t-Value-Xy")[:n]
		s := New(key)
		for before := range 5 {
			for after := range 5 {
				text := append(append(bytes.Repeat([]byte("A"), before), key...), bytes.Repeat([]byte("z"), after)...)
				for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
					whole := enc.EncodeToString(text)
					first, end := before*8/6, ((before+n)*8+5)/6 // characters with a bit of key
					want := whole[:first] + Mask + whole[end:]
					if after == 0 {
						want = strings.TrimRight(want, "=")
					}
					got, hits := s.String(`"` + whole + `"`)
					if after == 0 {
						got = strings.ReplaceAll(got, "=", "")
					}
					if got != `"`+want+`"` || hits != 1 {
						t.Errorf("len %d, %d before, %d after: %q, want %q, %d hits", n, before, after, got, want, hits)
					}
				}
			}
		}
	}
}

// H20: every split of the echo gives the output of one chunk, complete and cut.
func TestEverySplit(t *testing.T) {
	s := New([]byte("k3y-12345"), []byte("12345-k3y"))
	s.Add([]byte("Basic dTprM3ktMTIzNDU="))
	in := []byte("a k3y-12345-k3y-12345k3y-12345 dTprM3ktMTIzNDU= 6b33792d3132333435 azN5LTEyMzQ1 xk3y-1234 k3y-1")
	for _, complete := range []bool{true, false} {
		want, hits := oracle(s, in, !complete)
		for i := 0; i <= len(in); i++ {
			for j := i; j <= len(in); j++ {
				got, n := through(s, complete, in[:i], in[i:j], in[j:])
				if got != want || n != hits {
					t.Fatalf("complete %v, split %d %d:\n got %q (%d)\nwant %q (%d)", complete, i, j, got, n, want, hits)
				}
			}
		}
		var bytewise [][]byte
		for i := range in {
			bytewise = append(bytewise, in[i:i+1])
		}
		if got, n := through(s, complete, bytewise...); got != want || n != hits {
			t.Fatalf("byte by byte: got %q (%d), want %q (%d)", got, n, want, hits)
		}
	}
}

func TestRandomAgainstOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	letters := "ab+/%"
	word := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return b
	}
	for round := range 3000 {
		s := &Set{}
		for range 1 + r.IntN(3) {
			s.Add(word(1 + r.IntN(9)))
		}
		var in []byte
		for range r.IntN(12) {
			in = append(in, word(r.IntN(9))...)
			if r.IntN(2) == 0 {
				in = append(in, s.forms[r.IntN(len(s.forms))].text...)
			}
		}
		complete := r.IntN(2) == 0
		var chunks [][]byte
		for rest := in; len(rest) > 0; {
			k := 1 + r.IntN(len(rest))
			chunks, rest = append(chunks, rest[:k]), rest[k:]
		}
		want, hits := oracle(s, in, !complete)
		if got, n := through(s, complete, chunks...); got != want || n != hits {
			t.Fatalf("round %d, complete %v, in %q: got %q (%d), want %q (%d)", round, complete, in, got, n, want, hits)
		}
		if complete {
			if got, n := s.String(string(in)); got != want || n != hits {
				t.Fatalf("round %d: String gives %q (%d), want %q (%d)", round, got, n, want, hits)
			}
		}
	}
}

// H42: the length shown after a cut is the same whatever prefix of the secret was guessed.
func TestCutIsNoPrefixOracle(t *testing.T) {
	key := []byte("correct-horse-battery")
	s := New(key)
	for n := range len(key) {
		right := append(bytes.Repeat([]byte("."), 300), key[:n]...)
		wrong := append(bytes.Repeat([]byte("."), 300), bytes.Repeat([]byte("!"), n)...)
		a, _ := through(s, false, right)
		b, _ := through(s, false, wrong)
		if len(a) != len(b) || len(a) == 0 || strings.ContainsAny(a, "cor") {
			t.Errorf("prefix of %d: %d bytes shown, else %d", n, len(a), len(b))
		}
	}
}

func TestSmallSets(t *testing.T) {
	var none Set
	if got, n := through(&none, true, []byte("x")); got != "x" || n != 0 {
		t.Errorf("zero set, complete: %q, %d", got, n)
	}
	if got, n := through(New(nil, []byte{}), false, []byte("xy")); got != "xy" || n != 0 {
		t.Errorf("empty set, cut: %q, %d", got, n)
	}
	if got, n := New([]byte("x")).String("axxb"); got != "a"+Mask+Mask+"b" || n != 2 {
		t.Errorf("one byte: %q, %d", got, n)
	}
	s := New([]byte("Abc-secret"))
	if !s.Fold("x-ABC-SECRET-y") || s.Fold("x-ABC-SECRE") {
		t.Error("Fold must find any case, and nothing less than the whole")
	}
}

func TestWriterErrors(t *testing.T) {
	full := errors.New("disk full")
	w := New([]byte("password")).Writer(failing{full})
	if _, err := w.Write(make([]byte, 100<<10)); !errors.Is(err, full) {
		t.Errorf("write: %v", err)
	}
	if _, err := w.Close(true); !errors.Is(err, full) {
		t.Errorf("close: %v", err)
	}
	if _, err := w.Write([]byte("x")); err == nil {
		t.Error("write after close went through")
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func FuzzScrub(f *testing.F) {
	f.Add([]byte("password1"), []byte("x password1 cGFzc3dvcmQx"), uint16(3), true)
	f.Add([]byte(`a"b\c/d<e`), []byte(`{"a":"a\"b\\c\/d\u003ce"}`), uint16(7), false)
	f.Add([]byte("aaaa"), []byte("aaaaaaaaaaa"), uint16(1), false)
	f.Fuzz(func(t *testing.T, key, in []byte, step uint16, complete bool) {
		if len(key) > 64 || len(in) > 4096 {
			return
		}
		s := New(key)
		want, hits := oracle(s, in, !complete)
		var chunks [][]byte
		for rest := in; len(rest) > 0; {
			k := min(len(rest), 1+int(step%997))
			chunks, rest = append(chunks, rest[:k]), rest[k:]
		}
		if got, n := through(s, complete, chunks...); got != want || n != hits {
			t.Fatalf("got %q (%d), want %q (%d)", got, n, want, hits)
		}
		if len(key) >= 8 && complete && bytes.Contains([]byte(want), key) && !bytes.Contains([]byte(Mask), key) {
			// Masking may join two ends into the key again only through the mask itself.
			if !strings.Contains(string(key), "[") && !strings.Contains(string(key), "]") {
				t.Fatalf("key shown in %q", want)
			}
		}
	})
}
