package scrub

import (
	"bytes"
	"slices"
)

// oracle is what the package comment says, done on the whole input at once: every
// form at every place, the covered ranges joined where they overlap. cut drops the
// last L-1 bytes. It shares nothing with the matcher but the list of forms.
func oracle(s *Set, in []byte, cut bool) (string, int) {
	type span struct{ from, to int }
	var all []span
	longest, head, tail := 0, 0, 0
	for _, f := range s.forms {
		longest = max(longest, len(f.text))
		if f.head {
			head = 1
		}
		if f.tail {
			tail = 1
		}
		for i := 0; i+len(f.text) <= len(in); i++ {
			if !bytes.Equal(in[i:i+len(f.text)], f.text) {
				continue
			}
			sp := span{i, i + len(f.text)}
			if f.head && i > 0 && isBase64(in[i-1]) {
				sp.from--
			}
			if f.tail && sp.to < len(in) && isBase64(in[sp.to]) {
				sp.to++
			}
			all = append(all, sp)
		}
	}
	shown := len(in)
	if cut {
		shown = max(0, len(in)-max(0, longest+head+tail-1))
	}
	slices.SortFunc(all, func(a, b span) int { return a.from - b.from })
	var out []byte
	at, hits := 0, 0
	for i := 0; i < len(all); {
		from, to := all[i].from, all[i].to
		for i++; i < len(all) && all[i].from < to; i++ {
			to = max(to, all[i].to)
		}
		if from >= shown {
			break
		}
		out = append(append(out, in[at:from]...), "[redacted]"...)
		hits++
		at = to
	}
	if at < shown {
		out = append(out, in[at:shown]...)
	}
	return string(out), hits
}

func isBase64(c byte) bool {
	return bytes.IndexByte([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"), c) >= 0
}
