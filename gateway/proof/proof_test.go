package proof

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"sallyport/gateway/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const right = "correct horse"

// clock is moved by hand.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Duration       { return time.Duration(c.at.Load()) }
func (c *clock) advance(by time.Duration) { c.at.Add(int64(by)) }

// compare knows one passphrase and counts how often it was asked.
func compare(asked *atomic.Int64) Checker {
	return func(_ context.Context, p []byte) error {
		asked.Add(1)
		if string(p) != right {
			return fmt.Errorf("open slot: %w", ErrWrong)
		}
		return nil
	}
}

func pass(s string) *api.Proof { return &api.Proof{Kind: "passphrase", Value: s} }

// code is an error's code, "" for nil and the text of any other error.
func code(err error) string {
	var e *api.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	}
	return err.Error()
}

func TestVerify(t *testing.T) {
	for _, c := range []struct {
		name  string
		proof *api.Proof
		args  string
		want  string
		asked int64
	}{
		{"right", pass(right), `{"name":"x"}`, "", 1},
		{"right without args", pass(right), ``, "", 1},
		{"wrong", pass("wrong horse"), `{}`, "proof_wrong", 1},
		{"no newline is dropped here", pass(right + "\n"), `{}`, "proof_wrong", 1},
		{"none", nil, `{}`, "proof_required", 0},
		{"zero", &api.Proof{}, `{}`, "proof_required", 0},
		{"empty", pass(""), `{}`, "proof_required", 0},
		{"no kind", &api.Proof{Value: right}, `{}`, "proof_required", 0},
		{"another kind", &api.Proof{Kind: "passkey", Value: right}, `{}`, "proof_required", 0},
		{"kind in capitals", &api.Proof{Kind: "Passphrase", Value: right}, `{}`, "proof_required", 0},
		{"args with a name twice", pass(right), `{"a":1,"a":2}`, "invalid_request", 0},
		{"args broken", pass(right), `{"a":`, "invalid_request", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked atomic.Int64
			p := New(new(clock).now, compare(&asked))
			err := p.Verify(t.Context(), c.proof, api.PathCredentialAdd, jsontext.Value(c.args))
			if code(err) != c.want || asked.Load() != c.asked {
				t.Errorf("%v after %d checks, want %q after %d", err, asked.Load(), c.want, c.asked)
			}
			if err != nil && strings.Contains(err.Error(), "horse") {
				t.Errorf("the error holds the passphrase: %v", err)
			}
		})
	}
}

func TestZeroProvesNothing(t *testing.T) {
	var zero Passphrase
	if got := code(zero.Verify(t.Context(), pass(right), "p", nil)); got != "proof_required" {
		t.Error(got)
	}
	if got := code(New(new(clock).now, nil).Verify(t.Context(), pass(right), "p", nil)); got != "proof_required" {
		t.Error(got)
	}
}

// Five failures, then 30 s in which nothing is tried, not even the right one; then five more.
func TestPause(t *testing.T) {
	var asked atomic.Int64
	c := new(clock)
	p := New(c.now, compare(&asked))
	try := func(s, want string) {
		t.Helper()
		if got := code(p.Verify(t.Context(), pass(s), "p", nil)); got != want {
			t.Fatalf("%q: %q, want %q", s, got, want)
		}
	}
	for round := range 3 {
		for range maxFailures {
			try("wrong", "proof_wrong")
		}
		for _, wait := range []time.Duration{0, time.Second, pause - time.Second - 1} {
			c.advance(wait)
			try(right, "rate_limited")
			try("wrong", "rate_limited")
		}
		if n := asked.Load(); n != int64(maxFailures*(round+1)) {
			t.Fatalf("%d checks in round %d", n, round)
		}
		c.advance(1)
	}
	try(right, "")
}

func TestPauseSaysHowLong(t *testing.T) {
	c := new(clock)
	p := New(c.now, compare(new(atomic.Int64)))
	for range maxFailures {
		p.Verify(t.Context(), pass("wrong"), "p", nil)
	}
	c.advance(6500 * time.Millisecond)
	if err := p.Verify(t.Context(), pass(right), "p", nil); !strings.Contains(err.Error(), " 24 s") {
		t.Error(err)
	}
}

func TestRightOneResets(t *testing.T) {
	p := New(new(clock).now, compare(new(atomic.Int64)))
	for range 4 {
		for range maxFailures - 1 {
			if got := code(p.Verify(t.Context(), pass("wrong"), "p", nil)); got != "proof_wrong" {
				t.Fatal(got)
			}
		}
		if err := p.Verify(t.Context(), pass(right), "p", nil); err != nil {
			t.Fatal(err)
		}
	}
}

// What is no verdict is handed on as it is and counts for nothing.
func TestOtherErrorsPass(t *testing.T) {
	broken := errors.New("read slot: disk")
	answer := broken
	p := New(new(clock).now, func(context.Context, []byte) error { return answer })
	for range 3 * maxFailures {
		if err := p.Verify(t.Context(), pass("x"), "p", nil); err != broken {
			t.Fatal(err)
		}
	}
	answer = ErrWrong
	for range maxFailures {
		if got := code(p.Verify(t.Context(), pass("x"), "p", nil)); got != "proof_wrong" {
			t.Fatal(got)
		}
		answer = broken
		p.Verify(t.Context(), pass("x"), "p", nil) // resets nothing
		answer = ErrWrong
	}
	if got := code(p.Verify(t.Context(), pass("x"), "p", nil)); got != "rate_limited" {
		t.Fatal(got)
	}
}

// Attempts of another kind, unlock for one, share the limits.
func TestGuard(t *testing.T) {
	p := New(new(clock).now, compare(new(atomic.Int64)))
	opened := 0
	open := func() error { opened++; return nil }
	if err := p.Guard(t.Context(), open); err != nil || opened != 1 {
		t.Fatal(err, opened)
	}
	for i := range maxFailures {
		var err error
		if i%2 == 0 {
			err = p.Verify(t.Context(), pass("wrong"), "p", nil)
		} else {
			err = p.Guard(t.Context(), func() error { return fmt.Errorf("unlock: %w", ErrWrong) })
		}
		if code(err) != "proof_wrong" {
			t.Fatal(err)
		}
	}
	if got := code(p.Guard(t.Context(), open)); got != "rate_limited" || opened != 1 {
		t.Fatal(got, opened)
	}
}

func TestPassphraseIsWiped(t *testing.T) {
	var kept []byte
	p := New(new(clock).now, func(_ context.Context, b []byte) error {
		kept = b
		return nil
	})
	if err := p.Verify(t.Context(), pass(right), "p", nil); err != nil {
		t.Fatal(err)
	}
	if len(kept) != len(right) || strings.Trim(string(kept), "\x00") != "" {
		t.Errorf("left in memory: %q", kept)
	}
}

// A flood of guesses: never two checks at once, five checks in all, and everybody gets an answer.
func TestFlood(t *testing.T) {
	var running, asked atomic.Int64
	p := New(new(clock).now, func(context.Context, []byte) error {
		if running.Add(1) != 1 {
			t.Error("two checks at once")
		}
		defer running.Add(-1)
		asked.Add(1)
		return ErrWrong
	})
	var wg sync.WaitGroup
	var wrong, limited atomic.Int64
	for range 64 {
		wg.Go(func() {
			for range 20 {
				switch got := code(p.Verify(context.Background(), pass("guess"), "p", nil)); got {
				case "proof_wrong":
					wrong.Add(1)
				case "rate_limited":
					limited.Add(1)
				default:
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()
	if asked.Load() != maxFailures || wrong.Load() != maxFailures || limited.Load() != 64*20-maxFailures {
		t.Errorf("%d checks, %d wrong, %d limited", asked.Load(), wrong.Load(), limited.Load())
	}
}

// While one check runs, others wait for their turn; one that is cancelled leaves the queue, one too many is refused.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var asked atomic.Int64
		p := New(new(clock).now, func(context.Context, []byte) error {
			asked.Add(1)
			<-release
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		answers := make(chan error, maxQueued)
		for i := range maxQueued {
			c := t.Context()
			if i == maxQueued-1 { // the first one runs by now
				synctest.Wait()
				c = ctx
			}
			go func() { answers <- p.Verify(c, pass(right), "p", nil) }()
		}
		synctest.Wait()
		if asked.Load() != 1 {
			t.Fatalf("%d checks run", asked.Load())
		}
		if got := code(p.Verify(t.Context(), pass(right), "p", nil)); got != "rate_limited" {
			t.Fatalf("one too many: %q", got)
		}
		cancel()
		if err := <-answers; err != context.Canceled {
			t.Fatal(err)
		}
		close(release)
		for range maxQueued - 1 {
			if err := <-answers; err != nil {
				t.Fatal(err)
			}
		}
		if asked.Load() != maxQueued-1 || p.queued != 0 {
			t.Errorf("%d checks, %d queued", asked.Load(), p.queued)
		}
	})
}

func TestCancelledIsNotTried(t *testing.T) {
	var asked atomic.Int64
	p := New(new(clock).now, compare(&asked))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // the select that waits picks either way
		if err := p.Verify(ctx, pass(right), "p", nil); err != context.Canceled {
			t.Fatal(err)
		}
	}
	if asked.Load() != 0 {
		t.Errorf("%d checks", asked.Load())
	}
}

// A check that panics gives its turn back.
func TestPanicGivesTheTurnBack(t *testing.T) {
	p := New(new(clock).now, func(context.Context, []byte) error { panic("check") })
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		p.Verify(t.Context(), pass(right), "p", nil)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := p.Guard(ctx, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
}
