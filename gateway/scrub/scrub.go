// Package scrub finds known byte strings in a stream and masks them.
//
// A Set holds forms: each secret as it is, and as an upstream may give it back
// (base64 at its three alignments in both alphabets, hex in both cases, percent
// escapes, JSON escapes, HTML and XML escapes). Every occurrence is found, overlapping ones are one
// reflection, and each reflection becomes Mask. Bytes that overlap no occurrence
// pass unchanged.
//
// The output is a function of the whole input alone: cutting the input into other
// chunks changes nothing. A stream that ended early loses its last L-1 bytes
// (L: the longest form), whatever they are, so that what is shown never depends
// on a partial match: else guesses of a prefix could be tested against it.
//
// What it can't stop: an upstream that cooperates with the caller can encode a
// secret in ways no list has. The control for that is the rule that says which
// upstreams a secret may go to.
package scrub

import (
	"bytes"
	"slices"
	"sync"
)

// Mask stands for one reflection. It holds nothing that JSON, HTML or a header
// would have to escape, so a masked JSON string is still a JSON string.
const Mask = "[redacted]"

// Set is the forms of one call's secrets. The zero Set and New() mask nothing.
// Add must not be called at the same time as other methods; those are safe together.
type Set struct {
	forms []form

	once sync.Once
	m    *matcher
}

// form is one byte string to look for. A base64 form leaves out the characters
// it shares with its neighbours; head and tail say that the character before or
// after carries some of the secret's bits and is masked with it.
type form struct {
	text       []byte
	head, tail bool
}

func (f form) same(g form) bool {
	return f.head == g.head && f.tail == g.tail && bytes.Equal(f.text, g.text)
}

// New returns the set of all forms of each secret. Empty ones are ignored.
func New(secret ...[]byte) *Set {
	s := &Set{}
	for _, b := range secret {
		s.Add(b)
	}
	return s
}

// Add adds a value derived from a secret (a header, a token, a signature), in all
// its forms. It copies what it keeps.
func (s *Set) Add(value []byte) {
	if len(value) == 0 {
		return
	}
	for f := range renderings(value) {
		if !slices.ContainsFunc(s.forms, f.same) {
			s.forms = append(s.forms, f)
		}
	}
	s.once, s.m = sync.Once{}, nil
}

func (s *Set) compiled() *matcher {
	s.once.Do(func() { s.m = compile(s.forms) })
	return s.m
}

// String masks a whole value: a header, a status text, an error.
func (s *Set) String(t string) (masked string, hits int) {
	m := s.compiled()
	if len(t) < m.min {
		return t, 0
	}
	sc := scanner{m: m}
	out, _ := sc.scan(nil, []byte(t), true)
	if sc.hits == 0 {
		return t, 0
	}
	return string(out), sc.hits
}

// Fold reports whether t holds a form when ASCII case is ignored. It is for names
// that a parser has brought into one case, and for short ones: it is slow.
func (s *Set) Fold(t string) bool {
	for _, f := range s.forms {
		for i := 0; i+len(f.text) <= len(t); i++ {
			if foldEqual(t[i:i+len(f.text)], f.text) {
				return true
			}
		}
	}
	return false
}

func foldEqual(t string, b []byte) bool {
	for i := range len(t) {
		if lower(t[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
