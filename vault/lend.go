package vault

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
)

// Ref names a value to be lent. Zero Table means Credentials, Version 0 any
// version.
type Ref struct {
	Table   Table
	Name    string
	Version uint64
}

// Secret is a plaintext on loan. It prints as redacted whatever the verb.
type Secret struct{ l *loan }

// loan keeps the plaintext where fmt can't follow, as holder does.
type loan struct{ b atomic.Pointer[[]byte] }

// Bytes returns the plaintext. It and the bytes it gave are valid only inside
// the callback; later it returns nil, and bytes kept read zero.
func (s Secret) Bytes() []byte {
	if s.l == nil {
		return nil
	}
	if b := s.l.b.Load(); b != nil {
		return *b
	}
	return nil
}

func (Secret) String() string               { return redacted }
func (Secret) GoString() string             { return redacted }
func (Secret) Format(s fmt.State, _ rune)   { _, _ = io.WriteString(s, redacted) }
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
func (Secret) LogValue() slog.Value         { return slog.StringValue(redacted) }

// With calls use with the value r names and wipes the plaintext when use
// returns or panics; use's error is returned as it is. Calls run beside each
// other and beside every other method. ErrLocked, ErrUnknown (also for hosts:
// they have no value), ErrStale.
func (v *Vault) With(ctx context.Context, r Ref, use func(Secret) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("lend value: %w", err)
	}
	h, m, b, err := v.lend(r)
	if err != nil {
		return fmt.Errorf("lend value: %w", err)
	}
	l := &loan{}
	l.b.Store(&b)
	defer func() {
		l.b.Store(nil)
		h.spare.give(m)
	}()
	return use(Secret{l})
}

func (v *Vault) lend(r Ref) (held, *pages, []byte, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.in == nil {
		return held{}, nil, nil, v.refusal()
	}
	if r.Table == "" {
		r.Table = Credentials
	}
	h, ok := v.in.entries[r.Table][r.Name]
	if !ok || r.Table == Hosts {
		return held{}, nil, nil, ErrUnknown
	}
	if r.Version != 0 && r.Version != h.Version {
		return held{}, nil, nil, ErrStale
	}
	m := h.spare.take(len(h.Data))
	b, err := v.in.keys.value(h.Row, m.b)
	if err != nil {
		h.spare.give(m)
		return held{}, nil, nil, err
	}
	return h, m, b, nil
}
