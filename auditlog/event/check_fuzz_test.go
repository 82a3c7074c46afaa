package event

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// mayVanish are the kinds of which a sound log has records that Check does not miss, each with the reason why no call's
// right hangs on those. (That they could vanish is another matter: the chain holds every record.)
var mayVanish = map[string]string{
	"approval_expired":     "nothing was given by it",
	"approval_requested":   "approval_granted holds the card, and a quick answer is told before the question",
	"authorization_denied": "nothing was executed",
	"credential_added":     "calls are held to grants and grants to cards, by name",
	"late_result":          "the result is told apart from it",
	"epoch_opened":         "of an epoch that was given nothing",
	"grant_issued":         "of a grant that was not used",
	"epoch_ended":          "it takes away, and no record uses what it took",
	"grant_revoked":        "it takes away, and no record uses what it took",
	"passkey_removed":      "it takes away, and no record uses what it took",
	"run_ended":            "it takes away, and no record uses what it took",
	"run_orphaned":         "it takes away, and the gate refused what came after",
	"run_revoked":          "it takes away, and no record uses what it took",
	"gateway_stopped":      "it takes away, and gateway_started takes the same",
	"vault_locked":         "it takes away, and vault_unlocked tells that it was",
	"vault_quarantined":    "it takes away, and the vault was closed before",
}

// Each record of a sound log is missed when it is gone, or is of the list; so is what is told a second time.
func TestMissingRecords(t *testing.T) {
	log := whole(t)
	told := map[string]bool{}
	found := map[string]bool{}
	for i, it := range log {
		body := string(Encode(it.Event))
		switch it.Event.(type) {
		case RunOpened, EpochOpened, ApprovalGranted, GrantIssued:
			if told[body] {
				continue
			}
			told[body] = true
		}
		v := Check(slices.Values(slices.Delete(slices.Clone(log), i, i+1)))
		if len(v.Breaches) == 0 && v.Unresolved == right.Unresolved {
			found[Type(it.Event)] = true
			if mayVanish[Type(it.Event)] == "" {
				t.Errorf("record %d is not missed: %s", it.Seq, body)
			}
		}
	}
	for kind := range mayVanish {
		if !found[kind] {
			t.Errorf("every %s is missed: take it off the list", kind)
		}
	}
}

// Whatever takes authority away may come anywhere in a sound log: then the calls after it that used what it took are
// breaches, and where there is none nothing else is.
func TestEarlierEndsAreSeen(t *testing.T) {
	log := whole(t)
	for at := range log {
		for _, e := range []Event{VaultLocked{}, GatewayStopped{}, VaultQuarantined{}} {
			spoilt := slices.Insert(slices.Clone(log), at, Item{Seq: 1000, Time: log[at].Time, Event: e})
			v := Check(slices.Values(spoilt))
			if want := uses(log, at, e); (len(v.Breaches) > 0) != want {
				t.Fatalf("%s before record %d: want breaches %v, got %+v", Type(e), at+1, want, v.Breaches)
			}
		}
	}
}

// uses tells whether, with the vault shut at a place of the log, a later call meets it shut or names a grant that was
// void by then.
func uses(log []Item, at int, shut Event) bool {
	_, stopped := shut.(GatewayStopped)
	void := map[string]bool{}
	closed := false
	for i, it := range log {
		closed = closed || i == at
		switch e := it.Event.(type) {
		case GatewayStarted:
			stopped = stopped && i < at
		case VaultCreated:
			closed = closed && at > 0 // it opens only right after the first start
		case VaultUnlocked, VaultReleased:
			closed = closed && stopped
		case GrantIssued:
			void[e.Grant] = i < at || closed
		case ToolCalled:
			if i >= at && (closed || void[e.Grant]) {
				return true
			}
		}
	}
	return false
}

// spoil changes a log: records go, come twice, change places, become others, come at another time, take fields of
// others. pick chooses below n.
func spoil(log []Item, pick func(n int) int, steps int) []Item {
	for range steps {
		if len(log) == 0 {
			return log
		}
		i, j := pick(len(log)), pick(len(log))
		switch pick(6) {
		case 0:
			log = slices.Delete(log, i, i+1)
		case 1:
			log = slices.Insert(log, i, log[j])
		case 2:
			log[i].Event, log[j].Event = log[j].Event, log[i].Event
		case 3:
			log[i].Event = table[pick(len(table))].filled(uint64(pick(256)), pick(2) == 0)
		case 4:
			log[i].Time = log[i].Time.Add(time.Duration(pick(256)) * time.Minute)
		case 5:
			log[i].Event = crossed(log[i].Event, log[j].Event, pick)
		}
	}
	return log
}

// crossed is a with one field of b, where there is one of that kind.
func crossed(a, b Event, pick func(n int) int) Event {
	from, to := reflect.ValueOf(b), reflect.New(reflect.TypeOf(a)).Elem()
	to.Set(reflect.ValueOf(a))
	f, start := to.Field(pick(to.NumField())), pick(from.NumField())
	for i := range from.NumField() {
		if g := from.Field((i + start) % from.NumField()); g.Type() == f.Type() {
			f.Set(g)
			break
		}
	}
	return to.Interface().(Event)
}

func checkVerdict(t *testing.T, log []Item) {
	t.Helper()
	v := Check(slices.Values(log))
	if again := Check(slices.Values(log)); judged(v) != judged(again) {
		t.Fatalf("two verdicts:\n%+v\n%+v", v, again)
	}
	if len(v.Breaches) > maxBreaches+1 || v.Unresolved > v.Calls || v.Doubtful > v.Calls {
		t.Fatalf("%+v", v)
	}
	known := map[uint64]bool{}
	for _, it := range log {
		known[it.Seq] = true
	}
	for _, b := range v.Breaches {
		checkBreach(t, b)
		for _, s := range b.Seq {
			if !known[s] {
				t.Fatalf("no record %d: %+v", s, b)
			}
		}
	}
}

func TestSpoiltLogs(t *testing.T) {
	log := whole(t)
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 2))
		checkVerdict(t, spoil(slices.Clone(log), r.IntN, 1+r.IntN(8)))
	}
}

// FuzzCheck reads its input as choices: three to six a change.
func FuzzCheck(f *testing.F) {
	log := whole(f)
	f.Add([]byte{})
	f.Add([]byte{7, 0, 0, 20, 3, 1, 40, 41, 2})
	f.Add([]byte{50, 0, 3, 4, 9, 1, 60, 0, 4, 200, 61, 30, 5, 2, 2})
	f.Fuzz(func(t *testing.T, choices []byte) {
		steps := min(len(choices)/3, 64)
		pick := func(n int) int {
			if len(choices) == 0 {
				return 0
			}
			c := int(choices[0])
			choices = choices[1:]
			return c % n
		}
		checkVerdict(t, spoil(slices.Clone(log), pick, steps))
	})
}

// Reading changes nothing of what is read.
func TestCheckLeavesTheLog(t *testing.T) {
	log := whole(t)
	before := slices.Clone(log)
	Check(slices.Values(log))
	if !reflect.DeepEqual(before, log) {
		t.Error("the log was changed by reading")
	}
}
