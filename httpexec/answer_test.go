package httpexec

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

func length(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// shown gives one answer and returns what the caller sees of it.
func shown(t *testing.T, s Spec, answer string) (Result, string) {
	t.Helper()
	srv := serveRaw(t, answering(answer))
	r, body := call(t, client(t), s, Input{URL: srv.url})
	return r, body
}

// leaks reports whether any rendering of the secret is in what the caller sees.
func leaks(t *testing.T, r Result, body string) {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.ToLower(string(b) + fmt.Sprintf("%q %+v ", body, r) + body)
	basic := base64.StdEncoding.EncodeToString([]byte("me:" + secret))
	for _, form := range []string{secret, url.QueryEscape(secret), hex.EncodeToString([]byte(secret)), basic,
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret))} {
		if strings.Contains(all, strings.ToLower(form)) {
			t.Errorf("%s is shown: %s", form, all)
		}
	}
}

func TestReflections(t *testing.T) {
	basic := bearer()
	basic.Kind, basic.Username = "basic", "me"
	basicValue := base64.StdEncoding.EncodeToString([]byte("me:" + secret))
	hostile(t, "H19", func(t *testing.T) {
		quoted, _ := json.Marshal(secret)
		for name, c := range map[string]struct {
			spec Spec
			form string
		}{
			"raw":          {bearer(), secret},
			"header":       {bearer(), "Bearer " + secret},
			"json":         {bearer(), strings.Trim(string(quoted), `"`)},
			"json php":     {bearer(), strings.ReplaceAll(secret, "/", `\/`)},
			"hex":          {bearer(), hex.EncodeToString([]byte(secret))},
			"HEX":          {bearer(), strings.ToUpper(hex.EncodeToString([]byte("Bearer " + secret)))},
			"base64":       {bearer(), base64.StdEncoding.EncodeToString([]byte("Bearer " + secret))},
			"percent":      {bearer(), url.QueryEscape("Bearer " + secret)},
			"basic":        {basic, "Basic " + basicValue},
			"basic twice":  {basic, base64.StdEncoding.EncodeToString([]byte(basicValue))},
			"basic hex":    {basic, hex.EncodeToString([]byte(basicValue))},
			"basic opened": {basic, "me:" + secret},
		} {
			r, body := shown(t, c.spec, length(`{"h":"`+c.form+`","again":"`+c.form+`"}`))
			if r.Hits != 2 || !r.Complete || strings.Count(body, "[redacted]") != 2 || !strings.HasPrefix(body, `{"h":"`) {
				t.Errorf("%s: %d hits, %q", name, r.Hits, body)
			}
			leaks(t, r, body)
		}
		off := bearer()
		off.Scrub = "off"
		if r, body := shown(t, off, length(secret)); r.Hits != 0 || body != secret {
			t.Errorf("scrub off: %d hits, %q", r.Hits, body)
		}
	})
	hostile(t, "H21", func(t *testing.T) {
		r, body := shown(t, bearer(), "HTTP/1.1 302 see "+secret+"\r\nLocation: https://x.example/?t="+url.QueryEscape(secret)+
			"\r\nX-Echo: a "+secret+"\r\nX-Two: one\r\nX-Two: "+hex.EncodeToString([]byte(secret))+
			"\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n2\r\nhm\r\n0\r\nX-End: "+secret+"\r\n\r\n")
		if r.Status != "302 see [redacted]" || r.Headers["Location"] != "https://x.example/?t=[redacted]" || r.Headers["X-Echo"] != "a [redacted]" ||
			r.Headers["X-Two"] != "one, [redacted]" || r.Hits != 5 || body != "hm" {
			t.Errorf("%+v", r)
		}
		leaks(t, r, body)
	})
	// A name of a header comes back in another case.
	token := "AbCdEfGh-ToKeN"
	srv := serveRaw(t, answering("HTTP/1.1 200 OK\r\nX-"+token+": 1\r\n"+strings.ToUpper(hex.EncodeToString([]byte(token)))+": 2\r\nContent-Length: 0\r\n\r\n"))
	q := parse(t, Input{URL: srv.url})
	r, err := client(t).Do(context.Background(), context.Background(), q, match(t, rules(t, bearer("GET "+srv.url+"/**")), q), Injection{Secret: []byte(token)}, io.Discard)
	if err != nil || r.Hits != 2 || len(r.Headers) != 1 {
		t.Errorf("secret as a header's name: %+v, %v", r, err)
	}
	r, _ = shown(t, bearer(), "HTTP/1.1 200 \xff\xfe\r\nX-Odd: \x80\xe9\r\nContent-Length: 0\r\n\r\n")
	if !utf8.ValidString(r.Status) || !utf8.ValidString(r.Headers["X-Odd"]) {
		t.Errorf("not UTF-8: %+v", r)
	}
}

// H20: the echo cut at every byte, over chunks and over TCP segments.
func TestSplitEcho(t *testing.T) {
	hostile(t, "H20", func(t *testing.T) {
		echo := "data: a " + secret + " b\n\ndata: " + hex.EncodeToString([]byte(secret)) + "\n\n"
		want, wantHits := "data: a [redacted] b\n\ndata: [redacted]\n\n", 2
		c := client(t)
		srv := serveRaw(t, func(s *rawServer, _ int, c net.Conn) {
			br := bufio.NewReader(c)
			for i := 1; i < len(echo); i++ {
				if s.read(br) != nil {
					return
				}
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
				fmt.Fprintf(c, "%x\r\n%s\r\n", i, echo[:i])
				fmt.Fprintf(c, "%x\r\n%s\r\n0\r\n\r\n", len(echo)-i, echo[i:])
			}
		})
		for i := 1; i < len(echo); i++ {
			if r, body := call(t, c, bearer(), Input{URL: srv.url}); body != want || r.Hits != wantHits || !r.Complete {
				t.Fatalf("cut at %d: %q, %+v", i, body, r)
			}
		}
		if conns, _ := srv.seen(); conns != 1 {
			t.Errorf("%d connections for calls in a row", conns)
		}
	})
}

func TestContentCodings(t *testing.T) {
	hostile(t, "H22", func(t *testing.T) {
		for _, h := range []string{"gzip", "br", "zstd", "deflate", "x-unknown", "gzip, gzip", "identity, gzip", "gzip\r\nContent-Encoding: identity", "GZIP"} {
			r, body := shown(t, bearer(), "HTTP/1.1 200 OK\r\nContent-Encoding: "+h+"\r\nContent-Length: 18\r\n\r\n"+secret)
			if !r.Withheld || body != "" || r.Complete || r.Outcome != Confirmed || r.Code != 200 {
				t.Errorf("%q: %+v, %q", h, r, body)
			}
		}
		for _, h := range []string{"identity", "", "Identity, identity"} {
			if r, body := shown(t, bearer(), "HTTP/1.1 200 OK\r\nContent-Encoding: "+h+"\r\nContent-Length: 2\r\n\r\nok"); r.Withheld || body != "ok" {
				t.Errorf("%q: %+v, %q", h, r, body)
			}
		}
	})
	if r, body := shown(t, bearer(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"); body != "" || r.Outcome != SentUnconfirmed {
		t.Errorf("transfer coding: %+v, %q", r, body)
	}
}

// H42: what is shown of a cut body doesn't depend on a guessed prefix.
func TestCutBody(t *testing.T) {
	hostile(t, "H42", func(t *testing.T) {
		sizes := map[int]bool{}
		for n := range len(secret) {
			for _, guess := range []string{secret[:n], strings.Repeat("!", n)} {
				text := strings.Repeat(".", 500-n) + guess
				r, body := shown(t, bearer(), "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"+text)
				sizes[len(body)] = true
				if r.Complete || strings.Trim(body, ".") != "" || body == "" {
					t.Errorf("guess of %d: %+v %q", n, r, body)
				}
				c := NewClient(ClientOptions{BodyLimit: 500})
				srv := serveRaw(t, answering(length(text+"the rest")))
				r, capped := call(t, c, bearer(), Input{URL: srv.url})
				c.Close()
				if !r.Truncated || r.Complete || capped != body {
					t.Errorf("capped, guess of %d: %+v, %d bytes, cut %d", n, r, len(capped), len(body))
				}
			}
		}
		if len(sizes) != 1 {
			t.Errorf("sizes shown: %v", sizes)
		}
	})
}

func TestBodyLimit(t *testing.T) {
	for size, whole := range map[int]bool{0: true, 99: true, 100: true, 101: false, 5000: false} {
		for _, chunked := range []bool{false, true} {
			body := strings.Repeat("x", size)
			a := length(body)
			if chunked && size > 0 {
				a = fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", size, body)
			}
			srv := serveRaw(t, answering(a))
			c := NewClient(ClientOptions{BodyLimit: 100})
			r, got := call(t, c, bearer(), Input{URL: srv.url})
			c.Close()
			if r.Complete != whole || r.Truncated == whole || len(got) > 100 || whole && got != body {
				t.Errorf("%d bytes, chunked %v: %+v, %d shown", size, chunked, r, len(got))
			}
		}
	}
	// Masks may be longer than what they stand for: the limit holds for what is written too.
	short := "12345678"
	srv := serveRaw(t, answering(length(strings.Repeat(short, 10))))
	c := NewClient(ClientOptions{BodyLimit: 80})
	defer c.Close()
	q := parse(t, Input{URL: srv.url})
	var b bytes.Buffer
	r, err := c.Do(context.Background(), context.Background(), q, match(t, rules(t, bearer("GET "+srv.url+"/**")), q), Injection{Secret: []byte(short)}, &b)
	if err != nil || b.Len() > 80 || !r.Truncated || r.Hits != 10 || strings.Contains(b.String(), "1") {
		t.Errorf("%+v, %q, %v", r, b.String(), err)
	}
}

// H24: no error or detail holds the query or a header.
func TestNoQueryInErrors(t *testing.T) {
	hostile(t, "H24", func(t *testing.T) {
		const key = "QuErY-KeY-1234"
		mute := serveRaw(t, func(_ *rawServer, _ int, c net.Conn) { c.Read(make([]byte, 10)) })
		for _, u := range []string{"http://127.0.0.1:1", mute.url, strings.Replace(mute.url, "http:", "https:", 1)} {
			r, _ := call(t, client(t), bearer(), Input{URL: u + "/p?api_key=" + key, Headers: map[string]string{"Accept": key}})
			if text := fmt.Sprintf("%+v", r); strings.Contains(text, key) || r.Detail == "" {
				t.Errorf("%s", text)
			}
		}
		q := parse(t, Input{URL: "https://a.example/p?api_key=" + key})
		_, err := rules(t, bearer("GET https://b.example/**")).Match(q)
		if err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("%v", err)
		}
		_, err = NewClient(ClientOptions{}).Do(context.Background(), context.Background(), q, Match{}, Injection{Secret: []byte(secret)}, io.Discard)
		if err == nil || strings.Contains(err.Error(), key) || strings.Contains(err.Error(), secret) {
			t.Errorf("%v", err)
		}
	})
}

func TestCookies(t *testing.T) {
	hostile(t, "H32", func(t *testing.T) {
		a := "HTTP/1.1 200 OK\r\nSet-Cookie: sid=" + secret + "\r\nSet-Cookie2: a\r\nAlt-Svc: h3=\":1\"\r\nRefresh: 0\r\nAuthentication-Info: a\r\n" +
			"Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-Kept: 1\r\nContent-Length: 0\r\n\r\n"
		srv := serveRaw(t, answering(a, a))
		c := client(t)
		for range 2 {
			r, _ := call(t, c, bearer(), Input{URL: srv.url})
			if len(r.Headers) != 2 || r.Headers["X-Kept"] != "1" || r.Hits != 0 {
				t.Errorf("%+v", r)
			}
		}
		if _, reqs := srv.seen(); len(reqs) != 2 || strings.Contains(reqs[1], "Cookie") {
			t.Errorf("%q", reqs)
		}
	})
}

// An error of the caller's writer comes back as such, beside what is known of the call.
func TestBodyWriterFails(t *testing.T) {
	srv := serveRaw(t, answering(length(strings.Repeat("x", 50<<10))))
	q := parse(t, Input{URL: srv.url})
	full := errors.New("disk full")
	r, err := client(t).Do(context.Background(), context.Background(), q, match(t, rules(t, bearer("GET "+srv.url+"/**")), q), Injection{Secret: []byte(secret)}, failing{full})
	if !errors.Is(err, full) || r.Outcome != Confirmed || r.Complete {
		t.Errorf("%+v, %v", r, err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// A match is good for its own request only.
func TestForeignMatch(t *testing.T) {
	srv := serveRaw(t, answering(okAnswer))
	r := rules(t, bearer("GET "+srv.url+"/open/*"))
	m := match(t, r, parse(t, Input{URL: srv.url + "/open/x"}))
	for _, in := range []Input{{URL: srv.url + "/closed"}, {URL: srv.url + "/open/x", Method: "POST"}, {URL: srv.url + "/open/x", Headers: map[string]string{"X-Other": "1"}}, {Target: "t", Path: "/open/x"}} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		res, err := client(t).Do(ctx, ctx, parse(t, in), m, Injection{Secret: []byte(secret)}, io.Discard)
		cancel()
		if err == nil || res.Outcome != Denied {
			t.Errorf("%+v: %+v, %v", in, res, err)
		}
	}
	if n, _ := srv.seen(); n != 0 {
		t.Errorf("%d connections", n)
	}
}
