package event

import (
	"fmt"
	"iter"
	"slices"
)

// Breach is something the log tells that must not happen. Seq names the records it shows in, the offending one first.
type Breach struct {
	Seq  []uint64 `json:"seq"`
	Rule string   `json:"rule"` // a word of the list in the package comment
	Text string   `json:"text"` // for people, escaped
}

// Verdict is what a whole log means. A sound gateway leaves no breach behind, also when it crashes.
type Verdict struct {
	Breaches   []Breach `json:"breaches"`   // at most 1000, then one "more" that tells how many were left out
	Calls      int      `json:"calls"`      // intents
	Signed     int      `json:"signed"`     // approvals whose signature holds
	Unsigned   int      `json:"unsigned"`   // approvals by a proof that leaves no signature: a passphrase
	Unresolved int      `json:"unresolved"` // calls that the log's end leaves without a result
	Doubtful   int      `json:"doubtful"`   // calls recorded just after their grant had ended, whose refusal or effect a crash hid
}

// Limits of what is told and remembered.
const (
	maxBreaches = 1000
	maxEnded    = 4096 // endings kept to name what a late record speaks of
)

// Check reads a whole log in its order and judges what it means. It is pure: same items, same verdict. It remembers what
// is open (runs, epochs, grants, passkeys, intents), and of what has ended only the latest, to name it.
func Check(in iter.Seq[Item]) Verdict {
	c := checker{authority: newAuthority(), intents: map[string]*intent{}, closed: newEndings(), keys: map[string]passkey{}, sittings: map[string]sitting{}}
	for it := range in {
		if Type(it.Event) == "" {
			continue
		}
		it.Event = value(it.Event).Interface().(Event)
		c.at = it
		c.read(it.Event)
	}
	return c.verdict()
}

// checker is the state of one reading. The zero life is closed: nothing may be called before the log says so.
type checker struct {
	at Item // the record being read
	life
	authority
	containments
	keys     map[string]passkey // by credential id
	sittings map[string]sitting // open ones
	intents  map[string]*intent // open ones, by action
	closed   endings            // actions
	out      Verdict
	left     int    // breaches over the limit
	last     uint64 // the last of those
}

// life is whether calls may happen at all.
type life struct {
	open     bool
	stopped  bool   // until the next gateway_started nothing can open it
	restored bool   // a backup came in the vault's place, and was not opened yet
	first    bool   // the log's first gateway_started was read, and nothing since that closes: vault_created may open
	begun    bool   // somebody began before
	partial  bool   // an operator accepted a log that may lack records: a run may have been opened in those
	since    uint64 // the record that closed or opened it
}

func (c *checker) read(e Event) {
	switch e := e.(type) {
	case GatewayStarted:
		c.started()
	case GatewayStopped:
		c.shut("gateway_stopped")
		c.stopped = true
	case VaultLocked:
		c.shut("vault_locked")
	case VaultQuarantined:
		c.shut("vault_quarantined")
	case VaultCreated:
		if c.first {
			c.unlock()
		}
	case VaultUnlocked:
		c.shut("vault_unlocked") // it was locked before, told or not
		if !c.stopped {
			c.unlock()
		}
	case VaultReleased:
		c.shut("vault_released")
		c.begun, c.partial = true, c.partial || e.AcceptedLog
		if !c.stopped {
			c.unlock()
		}
	case VaultRekeyed:
		open := c.open
		c.shut("vault_rekeyed")
		if open {
			c.unlock()
		}
	case VaultRestored:
		c.shut("vault_restored")
		c.restored = true
		c.begun, c.partial = true, c.partial || e.NewLog
	case ToolCalled:
		c.called(e)
	case OperatorCalled:
		c.operatorCalled(e)
	case ToolFinished:
		c.finished(e)
	case ToolUnresolved:
		c.unresolved(e)
	case DenialProved, ProcessSignalled, ProcessChecked, ContainmentFinished:
		c.readContainment(e)
	default:
		c.readAuthority(e)
	}
}

// shut voids every grant; nothing is called until the vault is opened.
func (c *checker) shut(why string) {
	c.open, c.first, c.since = false, false, c.at.Seq
	c.voidAll(ending{seq: c.at.Seq, why: why, final: true})
	clear(c.sittings)
}

func (c *checker) unlock() {
	c.open, c.restored, c.since = true, false, c.at.Seq
	c.dropLoose()
}

// started begins a gateway's life: nothing of the one before can act any more, and its open intents were told as
// unresolved before this record.
func (c *checker) started() {
	fresh := !c.begun
	c.shut("gateway_started")
	c.begun, c.first, c.stopped = true, fresh, false
	c.endEpochs(ending{seq: c.at.Seq, why: "gateway_started"})
	c.dropLoose()
	for _, in := range inOrder(c.intents) {
		c.breach(intentLeftOpen, seqs(in.seq, c.at.Seq), "call %s has no result, and the gateway started anew after it", in.action)
		c.close(in)
	}
}

// verdict ends the reading.
func (c *checker) verdict() Verdict {
	c.out.Unresolved = len(c.intents)
	for _, in := range c.intents {
		if in.doubt != nil {
			c.out.Doubtful++
		}
	}
	if c.left > 0 {
		c.out.Breaches = append(c.out.Breaches, Breach{Seq: seqs(c.last), Rule: moreBreaches, Text: fmt.Sprintf("%d more, the last at %d", c.left, c.last)})
	}
	return c.out
}

// breach tells one; what the log's texts say in it is escaped and bounded.
func (c *checker) breach(rule string, at []uint64, format string, a ...any) {
	c.tell(newBreach(rule, at, format, a...))
}

func (c *checker) tell(b Breach) {
	if len(c.out.Breaches) == maxBreaches {
		c.left++
		c.last = b.Seq[0]
		return
	}
	c.out.Breaches = append(c.out.Breaches, b)
}

func newBreach(rule string, at []uint64, format string, a ...any) Breach {
	for i := range a {
		if s, ok := a[i].(string); ok {
			var w words
			w.text(clip(s, 80))
			if len(w) == 0 {
				w.note(`""`)
			}
			a[i] = w[0]
		}
	}
	return Breach{Seq: at, Rule: rule, Text: fmt.Sprintf(format, a...)}
}

// seqs lists the records of a breach, without those that are not known.
func seqs(at ...uint64) []uint64 {
	return slices.DeleteFunc(at, func(s uint64) bool { return s == 0 })
}
