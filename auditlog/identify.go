package auditlog

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// Identify gives the log identity to the writer, from unlock on, and nil takes it away, at lock. While it is there it
// countersigns each segment's first COMMIT, and so the HEADER, and another COMMIT once a minute (Options.Countersign)
// as long as there is something new; and once at each call of Identify and at Close: with all before it, that is beyond
// who steals the running writer's key afterwards. The signer must be quick and must sign as ed25519.PrivateKey does;
// where it fails the log goes on without, and Verify says what is weak.
func (w *Writer) Identify(id crypto.Signer) error {
	w.turn.Lock()
	defer w.turn.Unlock()
	if err := w.usable(); err != nil {
		return fmt.Errorf("identify: %w", err)
	}
	if id == nil {
		err := w.affirm()
		w.live.identity = nil
		return err
	}
	if k, ok := id.Public().(ed25519.PublicKey); !ok || !w.pub.Load().Identity.Equal(k) {
		return errors.New("identify: the key is not this log's identity")
	}
	w.live.identity = id
	return w.affirm()
}

// affirm countersigns the log as it stands, by a batch without records, if it is not yet. Under turn.
func (w *Writer) affirm() error {
	l := &w.live
	if l.identity == nil || l.sure == l.at.commits {
		return nil
	}
	if err := w.grow(batchOverhead, 0); err != nil {
		if isErrFull(err) {
			return fmt.Errorf("countersign: %w", err)
		}
		return w.poison(err)
	}
	return w.put(nil, w.o.Now())
}

func (w *Writer) countersignDue(now time.Time) bool {
	return w.live.identity != nil && now.Sub(time.Unix(0, w.live.sureAt)).Abs() >= w.o.Countersign
}

// countersign puts the identity's signature on c. A signature that does not hold would spoil the log, so it is checked.
func (w *Writer) countersign(c *commit) {
	id, p := w.live.identity, w.pub.Load()
	if id == nil {
		return
	}
	t := c.text(p.Origin)
	sig, err := id.Sign(rand.Reader, t, crypto.Hash(0))
	if err != nil || !ed25519.Verify(p.Identity, t, sig) {
		return
	}
	c.sure = true
	copy(c.idSig[:], sig)
}

// arm sees to it that the last COMMIT before a pause is countersigned too. Under turn.
func (w *Writer) arm() {
	l := &w.live
	if l.identity == nil || l.sure == l.at.commits || l.timer != nil {
		return
	}
	l.timer = time.AfterFunc(w.o.Countersign, func() {
		w.turn.Lock()
		defer w.turn.Unlock()
		w.live.timer = nil
		if w.usable() == nil {
			w.affirm() // what fails here fails again, and is told, at the next Append
		}
	})
}
