package vault

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"

	"filippo.io/age"
)

// redacted stands for a secret wherever one is printed.
const redacted = "[redacted]"

// Key is what opens a slot. The zero Key opens none. It prints as redacted.
type Key struct{ m *material } // a pointer: fmt prints an address even where it can't call Format

type material struct {
	passphrase []byte
	recovery   string
}

// Passphrase is the key of a scrypt slot. p is copied; the copy lives until
// Wipe.
func Passphrase(p []byte) Key { return Key{&material{passphrase: bytes.Clone(p)}} }

// Recovery is the key of a recovery slot: the identity that Prepare gave,
// "AGE-SECRET-KEY-PQ-1…".
func Recovery(identity string) Key { return Key{&material{recovery: identity}} }

// Wipe clears the passphrase. The key opens nothing afterwards.
func (k Key) Wipe() {
	if k.m != nil {
		clear(k.m.passphrase)
		*k.m = material{}
	}
}

func (Key) String() string               { return redacted }
func (Key) GoString() string             { return redacted }
func (Key) Format(s fmt.State, _ rune)   { _, _ = io.WriteString(s, redacted) }
func (Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (Key) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
func (Key) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (k Key) isPassphrase() bool         { return k.m != nil && len(k.m.passphrase) > 0 }
func (k Key) identity() (age.Identity, error) {
	switch {
	case k.isPassphrase():
		i, err := age.NewScryptIdentity(string(k.m.passphrase))
		if err != nil {
			return nil, ErrWrongKey
		}
		i.SetMaxWorkFactor(maxWorkFactor)
		return i, nil
	case k.m != nil && k.m.recovery != "":
		i, err := age.ParseHybridIdentity(k.m.recovery)
		if err != nil {
			return nil, ErrWrongKey // age's own error quotes what was typed
		}
		return i, nil
	default:
		return nil, ErrWrongKey
	}
}
