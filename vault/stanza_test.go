package vault

import (
	"errors"
	"testing"

	"filippo.io/age"
)

// FuzzUnwrap: a backup's header is a stranger's until its key is found.
func FuzzUnwrap(f *testing.F) {
	f.Add(stanzaSlot, "00", "", []byte("age-encryption.org/v1\n-> scrypt "), stanzaKey, "00", "1", []byte("x"))
	f.Add(stanzaSlot, newID().String(), "", []byte{}, stanzaKey, newID().String(), "18446744073709551615", make([]byte, 64))
	f.Add("X25519", "a", "b", []byte("c"), "grease", "", "", []byte(nil))
	f.Fuzz(func(t *testing.T, t1, a1, b1 string, body1 []byte, t2, a2, b2 string, body2 []byte) {
		stanza := func(typ, a, b string, body []byte) *age.Stanza {
			s := &age.Stanza{Type: typ, Args: []string{a}, Body: body}
			if b != "" {
				s.Args = append(s.Args, b)
			}
			return s
		}
		o := &opener{key: Passphrase([]byte("x"))}
		key, err := o.Unwrap([]*age.Stanza{stanza(t1, a1, b1, body1), stanza(t2, a2, b2, body2)})
		if err == nil || key != nil || o.keys != nil || !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrWrongKey) {
			t.Errorf("%q, %v", key, err)
		}
	})
}

// TestPast: keys of before are remembered once each, the latest first, and not
// without end.
func TestPast(t *testing.T) {
	k := someKeys(1)
	k.generation = 1
	old := k.sealUse("use", nil, []byte("old"))
	dek := make([]byte, 32)
	for i := range 3 {
		dek[0] = byte(i + 7)
		k = k.next(dek, k.generation+1)
	}
	if len(k.past) != 3 || k.past[0].generation != 3 || k.past[2].generation != 1 {
		t.Fatalf("%d remembered", len(k.past))
	}
	if got, err := k.unsealUse("use", nil, old); string(got) != "old" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if n := k.next(nil, 9, k, k.copy()); len(n.past) != 4 || !n.equal(k) {
		t.Errorf("%d remembered of twins", len(n.past))
	}
	in := newInterior(k)
	r := k.sealPast(Row{ID: newID().String(), Table: tablePast, Version: 5})
	read := newKeys(k.dek(), k.vault, k.generation)
	in.keys = read
	if ok, err := in.admit(r, nil); !ok || err != nil || len(read.past) != 3 || !read.past[2].equal(k.past[2]) {
		t.Errorf("%v, %v, %d read", ok, err, len(read.past))
	}
	if ok, _ := in.admit(r, nil); ok {
		t.Error("a second past row was taken")
	}
	for range maxPast + 5 {
		k = k.next(nil, k.generation+1)
	}
	if len(k.past) != maxPast || k.past[0].generation != k.generation-1 {
		t.Errorf("%d remembered, the first of %d", len(k.past), k.past[0].generation)
	}
	stranger := someKeys(2)
	stranger.vault = newID()
	if n := k.next(nil, 99, stranger); len(n.past) != maxPast || n.past[0].generation != k.generation {
		t.Error("another vault's keys were remembered")
	}
}
