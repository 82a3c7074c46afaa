package auditlog

import (
	"bytes"
	"slices"
)

// enter checks that a segment belongs here, and that its HEADER was signed by whom the reason demands.
func (w *walker) enter(n uint64, h header) error {
	start := place{n, 0}
	if h.segment != n {
		return w.fault(tampered, start, "the header is of segment %d", h.segment)
	}
	if h.origin != w.pub.Origin {
		return w.fault(tampered, start, "the header is of another log")
	}
	if (n == 1) != (h.reason == genesis) {
		return w.fault(tampered, start, "header reason %d cannot stand here", h.reason)
	}
	// Before the signature: damage to an earlier segment is named there, not where its consequences show.
	if err := w.explained(n, h); err != nil {
		return err
	}
	by := w.pub.Recovery
	switch h.reason {
	case genesis:
		by = w.pub.Identity
	case rotated:
		by = w.key
	case restarted, recovered:
	default:
		return w.fault(tampered, start, "header reason %d is unknown", h.reason)
	}
	if !h.signedBy(by) {
		return w.fault(unsigned, start, "the header is not signed by the key that may begin this segment")
	}
	if h.from.mark != w.at.mark {
		return w.fault(tampered, w.place, "the log ends here at record %d, commit %d; the next segment continues record %d, commit %d", w.at.seq, w.at.commits, h.from.seq, h.from.commits)
	}
	if !h.from.equal(w.at) {
		return w.fault(tampered, start, "the header continues another tree")
	}
	if err := w.sealedTo(start, h); err != nil {
		return err
	}
	if !slices.EqualFunc(h.open, openList(w.open), intent.equal) {
		return w.fault(tampered, start, "the header carries other open intents than the log has")
	}
	w.key, w.counter = h.key, h.counter
	w.readers = readers{serial: h.readers.serial, prints: h.readers.prints}
	return w.look(h)
}

// sealedTo holds the recipients to what the identity signed: as before, as the pinned audit.pub says, or as the newer
// one says that the HEADER brings along.
func (w *walker) sealedTo(start place, h header) error {
	r := h.readers
	switch {
	case r.serial < w.readers.serial || r.serial == 0:
		return w.fault(tampered, start, "the header's audit.pub has serial %d, and serial %d was in force", r.serial, w.readers.serial)
	case h.reason != genesis && r.serial > w.readers.serial:
		p, err := ParsePub(r.pub)
		if err != nil || p.Serial != r.serial || p.Origin != w.pub.Origin || !bytes.Equal(p.Identity, w.pub.Identity) ||
			!bytes.Equal(p.Recovery, w.pub.Recovery) || !slices.Equal(r.prints, fingerprints(p.Recipients)) {
			return w.fault(unsigned, start, "the header brings no audit.pub of serial %d that this log's identity signed", r.serial)
		}
	case len(r.pub) != 0:
		return w.fault(tampered, start, "the header brings an audit.pub that is not new")
	case h.reason != genesis && !slices.Equal(r.prints, w.readers.prints):
		return w.fault(tampered, start, "the header names other recipients than the segment before, with the same serial")
	}
	if r.serial == w.pub.Serial && !slices.Equal(r.prints, fingerprints(w.pub.Recipients)) {
		return w.fault(tampered, start, "the header names other recipients than audit.pub")
	}
	return nil
}

// explained holds the torn tails found against those the HEADER states.
func (w *walker) explained(n uint64, h header) error {
	for i, d := range w.drops {
		if i >= len(h.drops) || !d.same(h.drops[i]) {
			return w.fault(tampered, place{d.segment, int64(d.offset)}, "%s, and the next header does not explain it", d.why)
		}
	}
	if len(h.drops) > len(w.drops) {
		d := h.drops[len(w.drops)]
		return w.fault(tampered, place{d.segment, int64(d.offset)}, "the torn tail of %d bytes that segment %d explains is gone", d.size, n)
	}
	if (h.reason == recovered) != (len(h.drops) > 0) {
		return w.fault(tampered, place{n, 0}, "header reason and dropped bytes disagree")
	}
	w.drops = nil
	return nil
}
