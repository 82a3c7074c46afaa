package proof

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/gateway/api"
)

// codeOf is the table's code of an error; empty for none.
func codeOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		t.Fatalf("not an api error: %v", err)
	}
	return e.Code
}

func TestLimits(t *testing.T) {
	var now time.Duration
	v := New(func() time.Duration { return now }, func(_ context.Context, p []byte) error {
		if string(p) != "right" {
			return fmt.Errorf("open slot: %w", ErrWrong)
		}
		return nil
	})
	try := func(value string) string {
		return codeOf(t, v.Verify(t.Context(), &api.Proof{Kind: "passphrase", Value: value}, "x/y", nil))
	}
	for range maxFailures - 1 {
		if got := try("wrong"); got != "proof_wrong" {
			t.Fatalf("wrong passphrase: %q", got)
		}
	}
	if got := try("right"); got != "" {
		t.Fatalf("a right one before the limit: %q", got)
	}
	for range maxFailures {
		try("wrong")
	}
	if got := try("right"); got != "rate_limited" {
		t.Fatalf("after %d wrong ones even the right one waits: %q", maxFailures, got)
	}
	now += pause
	if got := try("right"); got != "" {
		t.Fatalf("after the pause: %q", got)
	}
}

func TestRefusals(t *testing.T) {
	boom := errors.New("disk")
	v := New(func() time.Duration { return 0 }, func(context.Context, []byte) error { return boom })
	for name, p := range map[string]*api.Proof{"none": nil, "empty": {Kind: "passphrase"}, "other kind": {Kind: "passkey", Value: "x"}} {
		if got := codeOf(t, v.Verify(t.Context(), p, "x/y", nil)); got != "proof_required" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if err := v.Verify(t.Context(), &api.Proof{Kind: "passphrase", Value: "x"}, "x/y", nil); !errors.Is(err, boom) {
		t.Errorf("a checker that can't tell: %v", err)
	}
	if got := codeOf(t, v.Verify(t.Context(), &api.Proof{Kind: "passphrase", Value: "x"}, "x/y", []byte("{"))); got != "invalid_request" {
		t.Errorf("args without a canonical form: %q", got)
	}
}

func TestOneAtATime(t *testing.T) {
	var inside, most atomic.Int32
	v := New(func() time.Duration { return 0 }, func(context.Context, []byte) error {
		most.Store(max(most.Load(), inside.Add(1)))
		defer inside.Add(-1)
		return nil
	})
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() { v.Verify(t.Context(), &api.Proof{Kind: "passphrase", Value: "x"}, "x/y", nil) })
	}
	all.Wait()
	if most.Load() != 1 {
		t.Fatalf("%d checks ran at once", most.Load())
	}
}
