// Package proof checks that a human stands behind an operator's request. Today that is the vault's passphrase; the
// limits on guessing it live here.
package proof

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
)

// Guessing is bounded: after maxFailures wrong passphrases every attempt is refused, unchecked, for pause.
const (
	maxFailures = 5
	pause       = 30 * time.Second
)

// ErrWrong is what a [Checker] returns (wrapped) for a passphrase that opens nothing.
var ErrWrong = errors.New("wrong passphrase")

// Checker says whether a passphrase is the operator's: nil, ErrWrong, or why it could not tell.
type Checker func(ctx context.Context, passphrase []byte) error

// Passphrase verifies passphrase proofs, one at a time.
type Passphrase struct {
	now   func() time.Duration
	check Checker

	turn     chan struct{} // one place: a check costs 256 MiB
	mu       sync.Mutex
	failures int
	until    time.Duration // refused before this moment
}

// New makes a verifier. now is CLOCK_BOOTTIME, which nobody can set back.
func New(now func() time.Duration, check Checker) *Passphrase {
	return &Passphrase{now: now, check: check, turn: make(chan struct{}, 1)}
}

// Verify checks p for one request. The passphrase itself binds nothing; what is proved is bound by the one connection
// that carries both. Errors are *api.Error: proof_required, proof_wrong, rate_limited; others mean it could not be told.
func (v *Passphrase) Verify(ctx context.Context, p *api.Proof, path string, args jsontext.Value) error {
	if p == nil || p.Value == "" {
		return api.Fail("proof_required", "")
	}
	if p.Kind != "passphrase" {
		return api.Fail("proof_required", "this command takes a passphrase as its proof")
	}
	if _, err := api.Challenge(path, args); err != nil {
		return api.Fail("invalid_request", "args: no canonical form")
	}
	return v.Guard(ctx, func() error { return v.check(ctx, []byte(p.Value)) })
}

// Guard runs an attempt under the limits: one at a time, and none while too many wrong ones are fresh. An attempt that
// fails with ErrWrong counts, and is told as proof_wrong.
func (v *Passphrase) Guard(ctx context.Context, attempt func() error) error {
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if left := v.wait(); left > 0 {
		return api.Fail("rate_limited", fmt.Sprintf("%d wrong passphrases; wait %d seconds", maxFailures, int(left/time.Second)+1))
	}
	err := attempt()
	v.note(err)
	if errors.Is(err, ErrWrong) {
		return api.Fail("proof_wrong", "")
	}
	return err
}

func (v *Passphrase) wait() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.until - v.now()
}

func (v *Passphrase) note(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case err == nil:
		v.failures = 0
	case errors.Is(err, ErrWrong):
		if v.failures++; v.failures >= maxFailures {
			v.failures, v.until = 0, v.now()+pause
		}
	}
}
