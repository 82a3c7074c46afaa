package vault

import (
	"bytes"
	"crypto/rand"
	"errors"
	"math/big"
	"os"
	"strings"
	"testing"

	"filippo.io/age"
)

func someKeys(fill byte) *keys {
	return newKeys(bytes.Repeat([]byte{fill}, 32), id{fill}, 1)
}

// TestPlace: a box opens in its own place, and in none that differs in one
// field, one bit, or the keys.
func TestPlace(t *testing.T) {
	k := someKeys(1)
	p := place{"credential", "0f", columnValue, 7}
	plain := []byte("the value")
	box := k.sealColumn(p, plain, make([]byte, padded(len(plain))))
	if got, err := k.unsealColumn(p, box, nil); err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("%q, %v", got, err)
	}
	otherGeneration := newKeys(k.dek(), k.vault, 2)
	otherVault := newKeys(k.dek(), id{9}, 1)
	for name, tt := range map[string]struct {
		k *keys
		p place
	}{
		"table":             {k, place{"host", "0f", columnValue, 7}},
		"id":                {k, place{"credential", "0e", columnValue, 7}},
		"column":            {k, place{"credential", "0f", columnLabel, 7}},
		"version":           {k, place{"credential", "0f", columnValue, 8}},
		"shifted boundary":  {k, place{"credential0", "f", columnValue, 7}},
		"other DEK":         {someKeys(2), p},
		"other vault id":    {otherVault, p},
		"other generation":  {otherGeneration, p},
		"use of Seal's box": {k, place{}},
	} {
		if _, err := tt.k.unsealColumn(tt.p, box, nil); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	for i := range box {
		for bit := range 8 {
			b := bytes.Clone(box)
			b[i] ^= 1 << bit
			if _, err := k.unsealColumn(p, b, nil); err == nil {
				t.Fatalf("byte %d bit %d: opened", i, bit)
			}
		}
		if _, err := k.unsealColumn(p, box[:i], nil); err == nil {
			t.Fatalf("cut at %d: opened", i)
		}
	}
	used := k.sealUse("row/credential/value", nil, []byte("x"))
	if _, err := k.unseal("row/credential/value", k.useAD("row/credential/value", nil), used, nil); err == nil {
		t.Error("a caller's use reaches the rows' keys")
	}
}

// TestLengthsHidden: rows of values up to a whole pad have one length.
func TestLengthsHidden(t *testing.T) {
	k := someKeys(1)
	size := func(n int) int {
		return len(k.sealEntry(Row{ID: "1", Table: "credential"}, []byte("{}"), make([]byte, n)).Data)
	}
	if size(1) != size(60) || size(60) == size(61) {
		t.Errorf("sizes %d, %d, %d", size(1), size(60), size(61))
	}
}

func TestFields(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range [][]string{{}, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"a", "", "b"}, {"ab", ""}, {"", "ab"}, {"\x00\x00\x00\x01a"}} {
		var b [][]byte
		for _, s := range f {
			b = append(b, []byte(s))
		}
		s := string(fields(b...))
		if seen[s] {
			t.Errorf("%q is not unique", f)
		}
		seen[s] = true
	}
}

// TestSum holds the words to arithmetic modulo 2^256.
func TestSum(t *testing.T) {
	mod := new(big.Int).Lsh(big.NewInt(1), 256)
	num := func(s sum) *big.Int {
		n := new(big.Int)
		for i := 3; i >= 0; i-- {
			n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(s[i]))
		}
		return n
	}
	all := ^uint64(0)
	cases := []sum{{}, {1}, {all, all, all, all}, {all}, {0, 1}, {all, all}, {5, 0, 0, all}}
	k := someKeys(3)
	for i := range 20 {
		cases = append(cases, k.element(Row{ID: string(rune('a' + i))}))
	}
	for _, a := range cases {
		for _, b := range cases {
			plus := new(big.Int).Add(num(a), num(b))
			minus := new(big.Int).Sub(num(a), num(b))
			if num(a.plus(b)).Cmp(plus.Mod(plus, mod)) != 0 || num(a.minus(b)).Cmp(minus.Mod(minus, mod)) != 0 {
				t.Fatalf("%x and %x", a, b)
			}
			if a.plus(b).minus(b) != a {
				t.Fatalf("%x + %x - %x", a, b, b)
			}
		}
	}
}

// TestElement: every part of a row counts, and so does the key.
func TestElement(t *testing.T) {
	r := Row{ID: "1", Table: "host", Version: 2, Data: []byte("d")}
	base := someKeys(1).element(r)
	for _, o := range []Row{{"2", "host", 2, []byte("d")}, {"1", "hos", 2, []byte("d")}, {"1", "host", 3, []byte("d")}, {"1", "host", 2, []byte("e")}} {
		if someKeys(1).element(o) == base {
			t.Errorf("%+v counts like %+v", o, r)
		}
	}
	if someKeys(2).element(r) == base {
		t.Error("the key does not count")
	}
}

func TestManifestForm(t *testing.T) {
	m := manifest{1, 2, 3, sum{4, 5, 6, 7}}
	if got, err := parseManifest(m.bytes()); err != nil || got != m {
		t.Errorf("%+v, %v", got, err)
	}
	for _, n := range []int{0, 55, 57} {
		if _, err := parseManifest(make([]byte, n)); err == nil {
			t.Errorf("%d bytes were taken", n)
		}
	}
}

// TestSlotForm: a slot must be whole, of this format, and in its own row.
func TestSlotForm(t *testing.T) {
	i, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	k := someKeys(5)
	r, err := sealSlot(k, newID(), i.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	got, err := unsealSlot(r, i)
	if err != nil || !got.equal(k) {
		t.Fatalf("%v", err)
	}
	moved := r
	moved.ID = newID().String()
	file := func(plain []byte) Row {
		var b bytes.Buffer
		w, err := age.Encrypt(&b, i.Recipient())
		if err != nil {
			t.Fatal(err)
		}
		w.Write(plain)
		w.Close()
		return Row{ID: strings.Repeat("00", 16), Data: b.Bytes()}
	}
	good := append([]byte(slotMagic), make([]byte, slotLength-len(slotMagic))...)
	if _, err := unsealSlot(file(good), i); err != nil {
		t.Fatalf("the test's own slot: %v", err)
	}
	cut := r
	cut.Data = r.Data[:len(r.Data)-1]
	for name, bad := range map[string]Row{
		"moved": moved, "cut": cut, "empty": file(nil), "short": file(good[:slotLength-1]),
		"long": file(append(bytes.Clone(good), 0)), "format": file(make([]byte, slotLength)), "no file": {ID: r.ID},
	} {
		if k, err := unsealSlot(bad, i); err == nil || k != nil {
			t.Errorf("%s: opened", name)
		}
	}
}

// TestSlotTries bounds what inserted slots cost.
func TestSlotTries(t *testing.T) {
	var rows []Row
	for range 3 * maxScryptTries {
		s, err := age.NewScryptRecipient("theirs")
		if err != nil {
			t.Fatal(err)
		}
		s.SetWorkFactor(1)
		r, err := sealSlot(someKeys(1), newID(), s)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	tried := 0
	_, _, err := openSlot(rows, Passphrase([]byte("theirs")), func(*keys, Row) bool { tried++; return false })
	if !errors.Is(err, ErrWrongKey) || tried != maxScryptTries {
		t.Errorf("%d slots tried, %v", tried, err)
	}
}

func TestSpare(t *testing.T) {
	s := &spare{}
	p := s.take(10)
	copy(p.b, "secret")
	s.give(p)
	if q := s.take(10); q != p || !bytes.Equal(q.b[:6], make([]byte, 6)) {
		t.Errorf("memory was not reused or not cleared: %q", q.b[:6])
	}
	var many []*pages
	for range maxSpare + 3 {
		many = append(many, s.take(10))
	}
	for _, p := range many {
		s.give(p)
	}
	if len(s.free) != maxSpare {
		t.Errorf("%d kept", len(s.free))
	}
	late := s.take(10)
	held := late.b
	copy(held, "secret")
	s.close()
	s.give(late)
	if len(s.free) != 0 || late.b != nil || !bytes.Equal(held[:6], make([]byte, 6)) {
		t.Errorf("after close %d kept, late memory %q", len(s.free), held[:6])
	}
}

func TestPages(t *testing.T) {
	size := os.Getpagesize()
	for _, n := range []int{0, 1, size - 1, size, size + 1, 64 << 10} {
		p := newPages(n)
		if len(p.b) < n || len(p.b)%size != 0 || cap(p.b) != len(p.b) {
			t.Errorf("%d bytes: length %d, capacity %d", n, len(p.b), cap(p.b))
		}
		_, _ = rand.Read(p.b)
		b := p.b
		p.wipe()
		p.wipe()
		if !bytes.Equal(b, make([]byte, len(b))) || p.b != nil {
			t.Errorf("%d bytes were not wiped", n)
		}
	}
	(*pages)(nil).wipe()
}

func FuzzSplit(f *testing.F) {
	f.Add(someKeys(1).sealEntry(Row{ID: "1", Table: "host"}, []byte("{}"), nil).Data)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		label, value, err := split(b)
		if err == nil && len(label)+len(value) > len(b) {
			t.Errorf("%d bytes split into %d and %d", len(b), len(label), len(value))
		}
	})
}
