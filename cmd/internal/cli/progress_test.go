package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// A bar is for a terminal, for what takes longer than a second, and is gone at the end.
func TestProgress(t *testing.T) {
	var shown bytes.Buffer
	clock := now
	a := &app{env{err: &shown, errTTY: true, now: func() time.Time { return clock }}}
	bar, end := a.progress("verify")
	bar(1, 100)
	bar(100, 100)
	end()
	if shown.Len() != 0 {
		t.Errorf("something quick shows %q", shown.String())
	}
	bar, end = a.progress("verify")
	bar(10, 100)
	clock = clock.Add(time.Second)
	bar(0, 0)
	bar(50, 100)
	bar(50, 100)
	if s := shown.String(); s != "\rverify [###############...............]  50%" {
		t.Errorf("shown %q", s)
	}
	end() // also where the reading ended early
	if !strings.HasSuffix(shown.String(), " 50%\r\x1b[K") {
		t.Errorf("shown %q", shown.String())
	}
	a.errTTY = false
	if bar, _ := a.progress("verify"); bar != nil {
		t.Error("a bar where there is no terminal")
	}
}

// What is read of the segments moves the bar; its end is told once all was read.
func TestMetered(t *testing.T) {
	var shown bytes.Buffer
	clock := now
	a := &app{env{err: &shown, errTTY: true, now: func() time.Time { return clock }}}
	files := fstest.MapFS{"00000001.seg": {Data: make([]byte, 600)}, "00000002.seg": {Data: make([]byte, 400)}, "signer": {Data: make([]byte, 5000)}}
	in, done := a.metered(files, "read")
	clock = clock.Add(time.Minute)
	f, err := in.Open("00000001.seg")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, f, 600); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(shown.String(), " 60%") {
		t.Errorf("shown %q", shown.String())
	}
	if _, err := in.Open("signer"); err != nil {
		t.Error(err)
	}
	done()
	if !strings.HasSuffix(shown.String(), " 60%\r\x1b[K") {
		t.Errorf("shown %q", shown.String())
	}
	a.outTTY = true
	shown.Reset()
	in, done = a.metered(files, "read")
	clock = clock.Add(time.Minute)
	if f, err = in.Open("00000001.seg"); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, f)
	done()
	if shown.Len() != 0 {
		t.Errorf("a bar among the lines: %q", shown.String())
	}
}
