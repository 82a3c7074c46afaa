// Package proof checks that a human stands behind an operator's request. Today that is the vault's passphrase; the
// limits on guessing it live here. A passphrase is no signature: which request was meant is known from the one connection
// that carries both. What a later kind signs is api.Challenge of the request.
//
// Deny, revoke and lock need no proof and do not come here: guessing may never lock them out.
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

// Guessing is bounded: after maxFailures wrong passphrases in a row every attempt is refused, unchecked, for pause; the
// right one too.
const (
	maxFailures = 5
	pause       = 30 * time.Second
	maxQueued   = 16 // attempts that wait or run, each of which holds a passphrase
)

// ErrWrong is what a [Checker] returns (wrapped) for a passphrase that opens nothing. It is told as proof_wrong.
var ErrWrong = errors.New("wrong passphrase")

// Checker says whether a passphrase is the operator's: nil, ErrWrong, or why it could not tell. The bytes are wiped when
// it returns.
type Checker func(ctx context.Context, passphrase []byte) error

// Passphrase verifies passphrase proofs, one at a time. The zero value proves nothing.
type Passphrase struct {
	now   func() time.Duration
	check Checker
	turn  chan struct{} // one place: a check costs 256 MiB

	mu       sync.Mutex
	queued   int
	failures int           // in a row
	until    time.Duration // refused before this moment
}

// New makes a verifier with limits of its own. now is CLOCK_BOOTTIME, which nobody can set back.
func New(now func() time.Duration, check Checker) *Passphrase {
	return &Passphrase{now: now, check: check, turn: make(chan struct{}, 1)}
}

// Verify checks p for one request: path below api.OperatorPrefix, args as received. Errors are *api.Error: proof_required
// (none, or a kind not taken here), proof_wrong, rate_limited, invalid_request (args without an RFC 8785 form, for which
// there is nothing to prove); others mean it could not be told, and count as neither success nor failure.
func (v *Passphrase) Verify(ctx context.Context, p *api.Proof, path string, args jsontext.Value) error {
	switch {
	case v.turn == nil || v.check == nil:
		return api.Fail("proof_required", "no proof can be checked here")
	case p == nil || p.Value == "":
		return api.Fail("proof_required", "")
	case p.Kind != "passphrase":
		return api.Fail("proof_required", "this command takes a passphrase as its proof")
	}
	if _, err := api.Challenge(path, args); err != nil {
		return api.Fail("invalid_request", "args: no canonical form")
	}
	return v.Guard(ctx, func() error {
		passphrase := []byte(p.Value)
		defer clear(passphrase)
		return v.check(ctx, passphrase)
	})
}

// Guard runs an attempt under the limits: one at a time, and none while too many wrong ones are fresh. An attempt that
// fails with ErrWrong counts, and is told as proof_wrong. An attempt whose ctx ends while it waits is not run.
func (v *Passphrase) Guard(ctx context.Context, attempt func() error) error {
	if err := v.enter(); err != nil {
		return err
	}
	defer v.leave()
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	// Those before this one may have used the tries up, and the caller may have left.
	if err := v.paused(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := attempt()
	v.note(err)
	if errors.Is(err, ErrWrong) {
		return api.Fail("proof_wrong", "")
	}
	return err
}

// enter joins the queue. Who would be refused anyway does not wait for it.
func (v *Passphrase) enter() error {
	if err := v.paused(); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.queued >= maxQueued {
		return api.Fail("rate_limited", "too many proofs wait to be checked")
	}
	v.queued++
	return nil
}

func (v *Passphrase) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.queued--
}

func (v *Passphrase) paused() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if left := v.until - v.now(); left > 0 {
		return api.Fail("rate_limited", fmt.Sprintf("%d wrong passphrases; wait %d seconds", maxFailures, (left+time.Second-1)/time.Second))
	}
	return nil
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
