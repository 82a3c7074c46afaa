package vault

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"filippo.io/age"
)

// redacted stands for a secret wherever one is printed.
const redacted = "[redacted]"

// Key is what opens a slot. The zero Key opens none. It prints as redacted.
type Key struct{ h *holder }

// holder keeps the material where fmt can't follow: given a bad verb, fmt
// prints what an unexported pointer points to, but never an atomic one.
type holder struct{ m atomic.Pointer[material] }

type material struct {
	passphrase []byte
	recovery   string
}

// Passphrase is the key of a scrypt slot. p is copied; the copy lives until
// Wipe.
func Passphrase(p []byte) Key { return newKey(&material{passphrase: bytes.Clone(p)}) }

// Recovery is the key of a recovery slot, or of a keychain slot: the identity
// that Prepare or NewIdentity gave, "AGE-SECRET-KEY-PQ-1…".
func Recovery(identity string) Key { return newKey(&material{recovery: identity}) }

func newKey(m *material) Key {
	h := &holder{}
	h.m.Store(m)
	return Key{h}
}

func (k Key) material() material {
	if k.h != nil {
		if m := k.h.m.Load(); m != nil {
			return *m
		}
	}
	return material{}
}

// Wipe clears the passphrase; the key opens nothing afterwards. It must not run
// beside an Unlock or Check with this key.
func (k Key) Wipe() {
	clear(k.material().passphrase)
	if k.h != nil {
		k.h.m.Store(nil)
	}
}

func (Key) String() string               { return redacted }
func (Key) GoString() string             { return redacted }
func (Key) Format(s fmt.State, _ rune)   { _, _ = io.WriteString(s, redacted) }
func (Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (Key) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
func (Key) LogValue() slog.Value         { return slog.StringValue(redacted) }

func (k Key) isPassphrase() bool { return len(k.material().passphrase) > 0 }

func (k Key) identity() (age.Identity, error) {
	m := k.material()
	switch {
	case len(m.passphrase) > 0:
		i, err := age.NewScryptIdentity(string(m.passphrase))
		if err != nil {
			return nil, ErrWrongKey
		}
		i.SetMaxWorkFactor(maxWorkFactor)
		return i, nil
	case m.recovery != "":
		i, err := age.ParseHybridIdentity(m.recovery)
		if err != nil {
			return nil, ErrWrongKey // age's own error quotes what was typed
		}
		return i, nil
	default:
		return nil, ErrWrongKey
	}
}
