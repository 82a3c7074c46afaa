package vault_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"sallyport/vault"
)

// TestConcurrent has lenders, writers, readers and a locker at once. A lender
// gets the whole value or an error, never anything between.
func TestConcurrent(t *testing.T) {
	v := ready(t, newMemory())
	add(t, v, "a", "whole value")
	allowed := func(err error) bool { return err == nil || errors.Is(err, vault.ErrLocked) }
	var wg sync.WaitGroup
	done := make(chan struct{})
	loop := func(f func(i int)) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
					f(i)
				}
			}
		})
	}
	var lents, adds sync.Map
	for w := range 3 {
		loop(func(i int) {
			err := v.With(context.Background(), vault.Ref{Name: "a"}, func(s vault.Secret) error {
				lents.Store(w, true)
				if string(s.Bytes()) != "whole value" {
					t.Errorf("lent %q", s.Bytes())
				}
				return nil
			})
			if !allowed(err) {
				t.Error(err)
			}
		})
	}
	loop(func(i int) {
		box, err := v.Seal("own", nil, []byte("note"))
		if err == nil {
			_, err = v.Unseal("own", nil, box)
		}
		if !allowed(err) {
			t.Error(err)
		}
	})
	loop(func(i int) {
		name := fmt.Sprintf("n%d", i%50)
		_, err := v.AddCredential(context.Background(), vault.Meta{Name: name}, []byte("x"), nil)
		if err == nil {
			adds.Store(i, true)
			err = v.Drop(context.Background(), vault.Credentials, name, nil)
		}
		// A name whose Drop met a lock is still there.
		if !allowed(err) && !errors.Is(err, vault.ErrExists) {
			t.Error(err)
		}
	})
	loop(func(int) {
		if s := v.Snapshot(); s != nil {
			if _, ok := s.Credential("a"); !ok || s.Counter == 0 {
				t.Error("half a snapshot")
			}
		}
		v.State()
	})
	for range 10 {
		v.Lock()
		if s := v.Snapshot(); s != nil {
			t.Error("snapshot of a locked vault")
		}
		if err := v.Unlock(t.Context(), key()); err != nil {
			t.Error(err)
		}
		if err := v.Check(t.Context(), key()); err != nil {
			t.Error(err)
		}
	}
	// Open now, and left so: whoever never had his turn in between the locks has it.
	some := func(m *sync.Map) (found bool) {
		m.Range(func(_, _ any) bool { found = true; return false })
		return found
	}
	for end := time.Now().Add(time.Minute); !(some(&lents) && some(&adds)); runtime.Gosched() {
		if time.Now().After(end) {
			t.Errorf("lent: %v, added: %v", some(&lents), some(&adds))
			break
		}
	}
	close(done)
	wg.Wait()
	v.Lock()
	if err := v.Unlock(t.Context(), key()); err != nil {
		t.Errorf("at the end: %v", err)
	}
}

// TestLockPassesCommit: State, Snapshot and Lock do not wait for a disk; a
// change stored behind a Lock is there at the next unlock, not before.
func TestLockPassesCommit(t *testing.T) {
	m := newMemory()
	v := ready(t, m)
	entered, released, stop := m.hold()
	result := make(chan error)
	go func() {
		_, err := v.AddHost(context.Background(), vault.Host{Name: "h"}, nil)
		result <- err
	}()
	<-entered
	if v.State() != vault.Ready || v.Snapshot() == nil {
		t.Error("not ready during a commit")
	}
	v.Lock()
	if v.State() != vault.Locked || v.Snapshot() != nil {
		t.Error("lock waited or did not hold")
	}
	stop()
	released <- struct{}{}
	if err := <-result; err != nil {
		t.Errorf("stored change: %v", err)
	}
	if v.State() != vault.Locked || v.Snapshot() != nil {
		t.Error("a commit opened a locked vault")
	}
	if err := v.Unlock(t.Context(), key()); err != nil {
		t.Fatal(err)
	}
	if _, ok := v.Snapshot().Host("h"); !ok {
		t.Error("stored change is lost")
	}
}

// TestCloseCrossesOpen: an unlock, and a first commit, that a Lock or Quarantine
// met on the way publish nothing.
func TestCloseCrossesOpen(t *testing.T) {
	for name, tt := range map[string]struct {
		close func(*vault.Vault)
		want  error
		state vault.State
	}{
		"lock":       {(*vault.Vault).Lock, vault.ErrLocked, vault.Locked},
		"quarantine": {func(v *vault.Vault) { v.Quarantine("rollback") }, vault.ErrQuarantined, vault.Quarantined},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			v := open(t, m)
			d, err := v.Prepare(key(), vault.CreateOptions{WorkFactor: 10})
			if err != nil {
				t.Fatal(err)
			}
			cross := func(v *vault.Vault, f func() error) {
				t.Helper()
				entered, released, stop := m.hold()
				result := make(chan error)
				go func() { result <- f() }()
				<-entered
				tt.close(v)
				stop()
				released <- struct{}{}
				if err := <-result; !errors.Is(err, tt.want) {
					t.Errorf("%v, want %v", err, tt.want)
				}
				if v.State() != tt.state || v.Snapshot() != nil {
					t.Errorf("state %v", v.State())
				}
			}
			cross(v, func() error { return d.Commit(context.Background(), nil, nil) })
			v = open(t, m)
			cross(v, func() error { return v.Unlock(context.Background(), key()) })
			if err := open(t, m).Unlock(t.Context(), key()); err != nil {
				t.Errorf("the vault itself: %v", err)
			}
		})
	}
}

// TestOneAttempt: while one key is tried, another waits, and leaves when its
// context ends.
func TestOneAttempt(t *testing.T) {
	m := newMemory()
	v := ready(t, m)
	v.Lock()
	entered, released, stop := m.hold()
	first := make(chan error)
	go func() { first <- v.Unlock(context.Background(), key()) }()
	<-entered
	stop()
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() { waiting <- v.Check(ctx, key()) }()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("second attempt: %v", err)
	}
	released <- struct{}{}
	if err := <-first; err != nil || v.State() != vault.Ready {
		t.Errorf("first attempt: %v, %v", err, v.State())
	}
	if err := v.Unlock(t.Context(), vault.Passphrase([]byte("wrong"))); !errors.Is(err, vault.ErrWrongKey) || v.State() != vault.Ready {
		t.Errorf("wrong key on a ready vault: %v, %v", err, v.State())
	}
	if err := v.Unlock(t.Context(), key()); err != nil {
		t.Errorf("unlocking a ready vault: %v", err)
	}
	m.fail(true, false)
	v.Lock()
	if err := v.Unlock(t.Context(), key()); !errors.Is(err, errDisk) || v.State() != vault.Locked {
		t.Errorf("unreadable store: %v, %v", err, v.State())
	}
	if _, err := vault.Open(t.Context(), m); !errors.Is(err, errDisk) {
		t.Errorf("open of an unreadable store: %v", err)
	}
}

func BenchmarkWith(b *testing.B) {
	v := ready(b, newMemory())
	add(b, v, "a", "ghp_0123456789012345678901234567890123456789")
	for b.Loop() {
		if err := v.With(context.Background(), vault.Ref{Name: "a"}, func(vault.Secret) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	v := ready(b, newMemory())
	note := make([]byte, 300)
	for b.Loop() {
		if _, err := v.Seal("own", note[:16], note); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPages(b *testing.B) {
	for b.Loop() {
		_, wipe := vault.NewPages(100)
		wipe()
	}
}
