package auditlog

import (
	"crypto/ed25519"
	"slices"
	"testing"
)

// resign rewrites a segment with a new key, everything consistent. The HEADER is signed by `by`, or by the new key itself.
func resign(t testing.TB, b []byte, by ed25519.PrivateKey, spoil func(i int, c *commit)) []byte {
	t.Helper()
	return resignAs(t, b, testOrigin, by, spoil)
}

func resignAs(t testing.TB, b []byte, origin string, by ed25519.PrivateKey, spoil func(i int, c *commit)) []byte {
	t.Helper()
	l := pieces(b)
	h, err := parseHeader(l[0].b[prefix:])
	if err != nil {
		t.Fatal(err)
	}
	pubKey, key, _ := ed25519.GenerateKey(nil)
	h.key = pubKey
	if by == nil {
		by = key
	}
	h.sign(by)
	l[0].b = h.frame()
	return rebuild(t, join(l), origin, key, nil, spoil)
}

// rebuild makes chain, tree and signatures fit again, as who holds the segment's key could. forge changes a COMMIT
// before it is signed, spoil after it.
func rebuild(t testing.TB, b []byte, origin string, key ed25519.PrivateKey, forge, spoil func(i int, c *commit)) []byte {
	t.Helper()
	return renumber(t, b, origin, key, false, forge, spoil)
}

// renumber also makes the COMMITs count what is there, if it is told to.
func renumber(t testing.TB, b []byte, origin string, key ed25519.PrivateKey, count bool, forge, spoil func(i int, c *commit)) []byte {
	t.Helper()
	l := pieces(b)
	h, err := parseHeader(l[0].b[prefix:])
	if err != nil {
		t.Fatal(err)
	}
	out := slices.Clone(l[0].b)
	head, tree := next(h.from.head, out), slices.Clone(h.from.edge)
	commits, records, link := 0, uint64(0), []byte(nil)
	for _, p := range l[1:] {
		if p.typ == frameCommit {
			c, err := parseCommit(p.b[prefix:])
			if err != nil {
				t.Fatal(err)
			}
			if link != nil {
				head = next(head, link)
			}
			c.head = head
			if count {
				c.commits, c.seq = h.from.commits+uint64(commits)+1, h.from.seq+records
			}
			tree = tree.with(c.commits-1, c.leaf())
			c.root = tree.root()
			if forge != nil {
				forge(commits, &c)
			}
			copy(c.sig[:], ed25519.Sign(key, c.text(origin)))
			if spoil != nil {
				spoil(commits, &c)
			}
			commits++
			p.b = c.appendFrame(nil)
			head, link = next(head, p.b), nil
		} else {
			link = append(link, p.b...)
			if p.typ == frameRecord {
				records++
			}
		}
		out = append(out, p.b...)
	}
	return out
}
