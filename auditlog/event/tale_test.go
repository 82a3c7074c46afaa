package event

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// tale is a log in the making, told in the order in which the gateway tells it.
type tale struct {
	t     testing.TB
	items []Item
	n     int // ids
	es    *ecdsa.PrivateKey
	ed    ed25519.PrivateKey
}

var dawn = time.Date(2026, 1, 2, 3, 4, 5, 6e8, time.UTC)

func newTale(t testing.TB) *tale {
	es, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &tale{t: t, es: es, ed: ed}
}

// tell appends events, a second apart.
func (a *tale) tell(evs ...Event) {
	for _, e := range evs {
		n := len(a.items)
		a.items = append(a.items, Item{Seq: uint64(n + 1), Time: dawn.Add(time.Duration(n) * time.Second), Event: e})
	}
}

// now is the time of the next record.
func (a *tale) now() time.Time { return dawn.Add(time.Duration(len(a.items)) * time.Second) }

func (a *tale) id(kind string) string {
	a.n++
	return fmt.Sprintf("%s_01JQ7R4S4S0QJ7GZP1S200%04d", kind, a.n)
}

// begin is a log's first life.
func (a *tale) begin() {
	a.tell(GatewayStarted{Version: "1", ProcessID: 7}, VaultCreated{VaultID: "v"})
}

// actor is one process of a run.
type actor struct {
	run, epoch string
	peer       Peer
}

func (a *tale) run(pid int) actor {
	who := actor{a.id("run"), a.id("ep"), Peer{ProcessID: pid, Started: dawn}}
	a.tell(RunOpened{Run: who.run, Agent: Peer{ProcessID: pid + 1}}, EpochOpened{Run: who.run, Epoch: who.epoch, Process: who.peer})
	return who
}

// yes is an approval with its grant.
type yes struct {
	actor
	approval, grant, digest string
}

// plan is the digest of a request.
func plan(what string) string {
	sum := sha256.Sum256([]byte(what))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// approve asks for what and gets a yes of the scope; until is the grant's expiresWhen. sign completes the approval.
func (a *tale) approve(who actor, what, scope, until string, sign func(*ApprovalGranted)) yes {
	y := yes{who, a.id("ap"), a.id("gr"), plan(what)}
	card := fmt.Appendf(nil, `{"id":%q,"agentRun":%q,"executionEpoch":%q,"tool":"http_request","credential":"ledger","target":"","digest":%q,"cardDigest":""}`,
		y.approval, who.run, who.epoch, y.digest)
	yes := ApprovalGranted{Approval: y.approval, Run: who.run, Epoch: who.epoch, Scope: scope, Card: card, CardDigest: plan(string(card)),
		Proof: "passphrase", Operator: "passphrase"}
	if sign != nil {
		sign(&yes)
	}
	a.tell(
		ApprovalRequested{Approval: y.approval, Run: who.run, Epoch: who.epoch, Tool: "http_request", Credential: "ledger", Digest: y.digest, CardDigest: yes.CardDigest},
		yes,
		GrantIssued{Grant: y.grant, Run: who.run, Epoch: who.epoch, ToolScope: []string{"http_request"}, CredentialScope: []string{"ledger"},
			IssuedAt: a.now(), ExpiresWhen: until, Approval: y.approval, Operator: yes.Operator})
	return y
}

// call records an intent by the grant of y; each is for a credential that wants an approval on each use.
func (a *tale) call(y yes, what string, each bool) string {
	e := ToolCalled{Call: Call{Action: a.id("act"), Run: y.run, Epoch: y.epoch, Tool: "http_request", Credential: "ledger"}, Digest: plan(what),
		Decision: "granted", Grant: y.grant}
	if each {
		e.Approval = y.approval
	}
	a.tell(e)
	return e.Action
}

func (a *tale) finish(y yes, action, outcome string) {
	a.tell(ToolFinished{Action: action, Run: y.run, Epoch: y.epoch, Outcome: outcome})
}

func (a *tale) done(y yes, what string, each bool) { a.finish(y, a.call(y, what, each), "confirmed") }

func spki(t testing.TB, pub crypto.PublicKey) []byte {
	b, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// enrol adds the two passkeys.
func (a *tale) enrol() {
	add := func(name string, pub crypto.PublicKey) {
		a.tell(PasskeyAdded{Passkey: name, CredentialID: []byte(name), SPKI: spki(a.t, pub), RPID: "localhost", Operator: "passphrase"})
	}
	add("es", a.es.Public())
	add("ed", a.ed.Public())
}

// signed makes an approval by a passkey. change may spoil what is signed.
func (a *tale) signed(name string, more string, change func(client *string, data *[]byte)) func(*ApprovalGranted) {
	return func(e *ApprovalGranted) {
		e.Proof, e.Operator = "passkey", name
		args := jsontext.Value(fmt.Sprintf(`{"id":%q,"cardDigest":%q,"scope":%q%s}`, e.Approval, e.CardDigest, e.Scope, more))
		if err := args.Canonicalize(); err != nil {
			a.t.Fatal(err)
		}
		e.Args = args
		challenge := sha256.Sum256(slices.Concat([]byte("approval/grant\n"), args))
		client := fmt.Sprintf(`{"type":"webauthn.get","challenge":%q,"origin":"http://localhost:7777","crossOrigin":false}`,
			base64.RawURLEncoding.EncodeToString(challenge[:]))
		rp := sha256.Sum256([]byte("localhost"))
		data := append(rp[:], userPresent|userVerified, 0, 0, 0, 1)
		if change != nil {
			change(&client, &data)
		}
		of := sha256.Sum256([]byte(client))
		msg := slices.Concat(data, of[:])
		sum := sha256.Sum256(msg)
		s := Assertion{CredentialID: []byte(name), AuthenticatorData: data, ClientDataJSON: []byte(client)}
		var err error
		switch name {
		case "es":
			s.Signature, err = ecdsa.SignASN1(rand.Reader, a.es, sum[:])
		case "ed":
			s.Signature = ed25519.Sign(a.ed, msg)
		}
		if err != nil {
			a.t.Fatal(err)
		}
		e.Assertion = s
	}
}

// whole is a log with everything a sound gateway can leave behind: four lives, the second ended by a crash, the fourth
// beside a database that was put back.
func whole(t testing.TB) []Item {
	a := newTale(t)
	a.begin()
	a.tell(CredentialAdded{Credential: "ledger", Kind: "bearer", Version: 1, Operator: "passphrase"})
	a.enrol()
	one := a.run(100)
	forRun := a.approve(one, "a", "run", "agent-run-ends", nil)
	a.done(forRun, "a", false)
	a.done(forRun, "b", false)
	use := a.approve(one, "c", "use", "1 use", nil)
	a.done(use, "c", false)
	each := a.approve(one, "d", "use", "1 use", a.signed("es", "", nil))
	a.done(each, "d", true)
	twice := a.approve(one, "e", "run", "2 uses", a.signed("ed", `,"uses":2`, nil))
	a.done(twice, "e", false)
	a.done(twice, "f", false)
	ends := a.now().Add(time.Hour).UTC()
	timed := a.approve(one, "g", "run", ends.Format(time.RFC3339), a.signed("es", `,"until":"`+ends.Format(time.RFC3339Nano)+`"`, nil))
	a.done(timed, "g", false)
	a.tell(AuthorizationDenied{Call: Call{Run: one.run, Epoch: one.epoch}, Method: "call", Reason: "rule_mismatch", Count: 3})

	// A call is recorded while its process is replaced: the gate refuses it, and the end is told after the new epoch.
	next := actor{one.run, a.id("ep"), one.peer}
	a.tell(EpochOpened{Run: next.run, Epoch: next.epoch, Process: next.peer})
	a.finish(forRun, a.call(forRun, "h", false), "denied")
	a.tell(EpochEnded{Run: one.run, Epoch: one.epoch, Reason: "peer_replaced"})
	a.finish(forRun, a.call(forRun, "i", false), "denied")
	again := a.approve(next, "j", "run", "agent-run-ends", nil)
	a.done(again, "j", false)
	// A grant that lost its standing while it was told, and one that a lock ends.
	lost := a.approve(next, "k", "run", "agent-run-ends", nil)
	a.tell(GrantRevoked{Grant: lost.grant, Run: next.run, Epoch: next.epoch, Reason: "run_lost"},
		ApprovalExpired{Approval: lost.approval, Run: next.run, Epoch: next.epoch, Reason: "approval_timeout"})
	a.tell(VaultLocked{Operator: "unproved", Reason: "operator"})
	seen := a.run(200) // opened while locked
	a.tell(AuthorizationDenied{Call: Call{Run: seen.run, Epoch: seen.epoch}, Method: "call", Reason: "vault_locked"})
	a.tell(VaultUnlocked{Operator: "passphrase"})
	after := a.approve(next, "l", "run", "agent-run-ends", nil)
	late := a.call(after, "l", false)
	a.tell(RunOrphaned{Run: next.run})
	a.finish(after, late, "sent_unconfirmed")
	a.tell(LateResult{Action: late, Run: after.run, Epoch: after.epoch})
	a.finish(after, a.call(after, "m", false), "denied")
	a.tell(EpochEnded{Run: next.run, Epoch: next.epoch, Reason: "process_gone"}, RunEnded{Run: next.run})
	doomed := a.approve(seen, "n", "run", "agent-run-ends", nil)
	a.done(doomed, "n", false)
	a.tell(RunRevoked{Run: seen.run, Operator: "unproved"})
	retry := actor{seen.run, a.id("ep"), Peer{ProcessID: 201, Started: dawn}}
	a.tell(EpochOpened{Run: retry.run, Epoch: retry.epoch, Process: retry.peer}) // its client connects again, and is refused
	a.tell(AuthorizationDenied{Call: Call{Run: retry.run, Epoch: retry.epoch}, Method: "call", Reason: "run_revoked"})
	a.tell(PasskeyRemoved{Passkey: "ed", CredentialID: []byte("ed"), Operator: "passphrase"})
	a.tell(GatewayStopped{Reason: "stop"})

	a.tell(GatewayStarted{Version: "1", ProcessID: 8}, VaultUnlocked{Operator: "passphrase"})
	stays := a.run(300)
	held := a.approve(stays, "o", "run", "agent-run-ends", nil)
	a.done(held, "o", false)
	cut := a.call(held, "p", false)
	// Crash. The grant below was in the outbox; the end of its epoch, in the clear, is told first.
	a.tell(ToolUnresolved{Action: cut, Outcome: "sent_unconfirmed", Cause: "restart"}, EpochEnded{Run: stays.run, Epoch: stays.epoch, Reason: "process_gone"},
		GatewayStarted{Version: "1", ProcessID: 9, Recovered: 1})
	a.approve(stays, "q", "run", "agent-run-ends", nil)
	a.tell(VaultUnlocked{Operator: "passphrase"})
	back := actor{stays.run, a.id("ep"), Peer{ProcessID: 301, Started: dawn}}
	a.tell(EpochOpened{Run: back.run, Epoch: back.epoch, Process: back.peer})
	last := a.approve(back, "r", "run", "agent-run-ends", a.signed("es", "", nil))
	a.done(last, "r", false)
	// The database was put back: its outbox tells again what the log has, and the operator accepts the log as it is.
	a.tell(GatewayStopped{Reason: "stop"}, VaultQuarantined{Reason: "older"}, GatewayStarted{Version: "1", ProcessID: 10})
	a.tell(a.latest(RunOpened{}), a.latest(EpochOpened{}), a.latest(ApprovalGranted{}), a.latest(GrantIssued{}))
	a.tell(VaultReleased{Reason: "older", Operator: "passphrase", AcceptedLog: true})
	known := actor{a.id("run"), a.id("ep"), Peer{ProcessID: 400, Started: dawn}} // opened in a part of the log that is gone
	a.tell(EpochOpened{Run: known.run, Epoch: known.epoch, Process: known.peer})
	end := a.approve(known, "t", "run", "agent-run-ends", a.signed("es", "", nil))
	a.done(end, "t", false)
	a.call(end, "u", false)
	return a.items
}

// latest is the last event of a type.
func (a *tale) latest(like Event) Event {
	for i := len(a.items) - 1; i >= 0; i-- {
		if Type(a.items[i].Event) == Type(like) {
			return a.items[i].Event
		}
	}
	a.t.Fatalf("no %s", Type(like))
	return nil
}
