package scrub

import (
	"bytes"
	"math"
	"math/bits"
)

// matcher finds every occurrence of a fixed list of forms (S. Wu, U. Manber, "A fast
// algorithm for multi-pattern searching", 1994): the last three bytes of a window, as
// long as the shortest form, say how far the window can move, most often all the way.
type matcher struct {
	min  int // length of the window, MaxInt if there are no forms
	max  int // length of the longest
	head int // 1 if some form takes the byte before it
	tail int // 1 if some form takes the byte after it

	shift  uint // 32 - log2(len(table))
	table  []uint16
	bucket [][]form // forms whose window ends in one hash
}

// A table entry below candidates is a distance; one above is an index into bucket.
const candidates = 1 << 15

const (
	block     = 3
	maxWindow = 24 // a longer one saves little and costs more to make
)

// window is L: a start can be judged once so many bytes are there.
func (m *matcher) window() int { return m.head + m.max + m.tail }

func compile(forms []form) *matcher {
	m := &matcher{min: math.MaxInt}
	for _, f := range forms {
		m.min, m.max = min(m.min, len(f.text)), max(m.max, len(f.text))
		if f.head {
			m.head = 1
		}
		if f.tail {
			m.tail = 1
		}
	}
	if len(forms) == 0 {
		return m
	}
	m.min = min(m.min, maxWindow)
	if m.min < block { // too short to skip by: every form is a candidate everywhere
		m.bucket = [][]form{forms}
		return m
	}
	// Eight slots an entry keep chance hits rare; past 2^16 slots the cache is lost.
	size := min(max(bits.Len(uint(len(forms)*(m.min-block+1)*8)), 10), 16)
	m.shift = 32 - uint(size)
	m.table = make([]uint16, 1<<size)
	far := uint16(m.min - block + 1)
	for i := range m.table {
		m.table[i] = far
	}
	for _, f := range forms {
		for end := block; end < m.min; end++ {
			t := &m.table[m.hash(f.text[end-block:])]
			*t = min(*t, uint16(m.min-end))
		}
	}
	for _, f := range forms {
		t := &m.table[m.hash(f.text[m.min-block:])]
		if *t < candidates {
			// A full list of buckets shares its last one: slower, never wrong.
			if len(m.bucket) < candidates {
				m.bucket = append(m.bucket, nil)
			}
			*t = candidates + uint16(len(m.bucket)-1)
		}
		b := &m.bucket[*t-candidates]
		*b = append(*b, f)
	}
	return m
}

func (m *matcher) hash(p []byte) uint32 {
	_ = p[2]
	return (uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16) * 0x9e3779b1 >> m.shift
}

// find returns the first start in [i, limit) where a form begins, and the bytes
// [from, to) that the forms beginning there cover. Without one, at is the first
// start not yet judged.
func (m *matcher) find(buf []byte, i, limit int) (at, from, to int, ok bool) {
	for i < limit && i+m.min <= len(buf) {
		list := m.bucket
		if m.table != nil {
			t := m.table[m.hash(buf[i+m.min-block:])]
			if t < candidates {
				i += int(t)
				continue
			}
			list = m.bucket[t-candidates : t-candidates+1]
		}
		from, to = i, i
		for _, f := range list[0] {
			if !bytes.HasPrefix(buf[i:], f.text) {
				continue
			}
			end := i + len(f.text)
			if f.tail && end < len(buf) && base64Char(buf[end]) {
				end++
			}
			if f.head && i > 0 && base64Char(buf[i-1]) {
				from = i - 1
			}
			to = max(to, end)
		}
		if to > i {
			return i, from, to, true
		}
		i++
	}
	return i, 0, 0, false
}

func base64Char(c byte) bool { return alphanumeric(c) || contains("+/-_", c) }

// scanner is one pass over one stream. Positions are relative to the buffer given to scan.
type scanner struct {
	m    *matcher
	next int // first start not yet judged
	end  int // end of the last reflection
	hits int
}

// scan appends to dst what buf becomes and returns how much of buf is settled; the
// caller gives the rest again in front of more. final: no more will come.
func (s *scanner) scan(dst, buf []byte, final bool) (out []byte, settled int) {
	m := s.m
	limit, settled := len(buf), len(buf)
	if !final {
		settled = max(0, len(buf)-max(0, m.window()-1))
		limit = settled + m.head
		if limit+m.max+m.tail > len(buf)+1 {
			limit = settled // fewer bytes than one window
		}
	}
	from := 0
	for {
		at, a, b, ok := m.find(buf, s.next, limit)
		s.next = at
		if !ok || !final && a >= settled {
			break // the latter is looked at again when its place is settled
		}
		s.next++
		if a < s.end {
			s.end = max(s.end, b)
			continue
		}
		dst = append(dst, buf[max(from, s.end):a]...)
		dst = append(dst, Mask...)
		s.hits++
		from, s.end = a, b
	}
	if from = max(from, s.end); from < settled {
		dst = append(dst, buf[from:settled]...)
	}
	s.next, s.end = max(0, s.next-settled), max(0, s.end-settled)
	return dst, settled
}
