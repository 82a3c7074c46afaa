package event

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
)

// by signs a new approval of the scene and changes what comes out.
func (s scene) by(name, more string, spoil func(client *string, data *[]byte), change func(*ApprovalGranted)) {
	s.approve(s.who, "p", "run", "agent-run-ends", func(e *ApprovalGranted) {
		s.signed(name, more, spoil)(e)
		if change != nil {
			change(e)
		}
	})
}

// client changes client data before it is signed.
func client(old, new string) func(*string, *[]byte) {
	return func(c *string, _ *[]byte) { *c = strings.Replace(*c, old, new, 1) }
}

func flags(f byte) func(*string, *[]byte) {
	return func(_ *string, d *[]byte) { (*d)[32] = f }
}

func flip(field func(*ApprovalGranted) []byte) func(*ApprovalGranted) {
	return func(e *ApprovalGranted) { b := field(e); b[len(b)-1] ^= 1 }
}

var wrongProofs = []struct {
	rule, name   string
	right, wrong func(scene)
	at           int
}{
	{rule: approvalArgs, name: "not canonical", at: 1, wrong: func(s scene) {
		s.approve(s.who, "p", "run", "agent-run-ends", func(e *ApprovalGranted) {
			e.Args = []byte(`{"scope":"run","id":"` + e.Approval + `","cardDigest":"` + e.CardDigest + `"}`)
		})
	}, right: func(s scene) {
		s.approve(s.who, "p", "run", "agent-run-ends", func(e *ApprovalGranted) {
			e.Args = []byte(`{"cardDigest":"` + e.CardDigest + `","id":"` + e.Approval + `","scope":"run"}`)
		})
	}},
	{rule: approvalArgs, name: "no JSON", at: 1, wrong: func(s scene) {
		s.approve(s.who, "p", "run", "agent-run-ends", func(e *ApprovalGranted) { e.Args = []byte("{") })
	}},
	{rule: approvalArgs, name: "another approval", at: 1, wrong: func(s scene) {
		s.approve(s.who, "p", "run", "agent-run-ends", func(e *ApprovalGranted) {
			real := e.Approval
			e.Approval = s.yes.approval
			s.signed("es", "", nil)(e)
			e.Approval = real
		})
	}},
	{rule: approvalArgs, name: "another card", at: 1, wrong: func(s scene) {
		s.approve(s.who, "p", "run", "agent-run-ends", func(e *ApprovalGranted) {
			real := e.CardDigest
			e.CardDigest = plan("another")
			s.signed("ed", "", nil)(e)
			e.CardDigest = real
		})
	}},
	{rule: approvalArgs, name: "another scope", at: 1, wrong: func(s scene) {
		s.approve(s.who, "p", "run", "agent-run-ends", func(e *ApprovalGranted) {
			e.Scope = "use"
			s.signed("es", "", nil)(e)
			e.Scope = "run"
		})
	}},
	{rule: approvalArgs, name: "less than no use", at: 1, wrong: func(s scene) { s.by("es", `,"uses":-1`, nil, nil) }},
	{rule: approvalPasskey, name: "unknown", at: 1, wrong: func(s scene) {
		s.by("es", "", nil, func(e *ApprovalGranted) { e.Assertion.CredentialID = []byte("x") })
	}},
	{rule: approvalPasskey, name: "none named", at: 1, wrong: func(s scene) { s.by("es", "", nil, func(e *ApprovalGranted) { e.Assertion.CredentialID = nil }) }},
	{rule: approvalPasskey, name: "removed", at: 1, wrong: func(s scene) {
		s.tell(PasskeyRemoved{CredentialID: []byte("es")})
		s.by("es", "", nil, nil)
	}, right: func(s scene) { s.by("es", "", nil, nil); s.tell(PasskeyRemoved{CredentialID: []byte("es")}) }},
	{rule: approvalSignature, name: "none", at: 1, wrong: func(s scene) { s.by("es", "", nil, func(e *ApprovalGranted) { e.Assertion = Assertion{} }) }},
	{rule: approvalSignature, name: "ES256 flipped", at: 1, wrong: func(s scene) {
		s.by("es", "", nil, flip(func(e *ApprovalGranted) []byte { return e.Assertion.Signature }))
	}, right: func(s scene) { s.by("es", "", nil, nil) }},
	{rule: approvalSignature, name: "EdDSA flipped", at: 1, wrong: func(s scene) {
		s.by("ed", "", nil, flip(func(e *ApprovalGranted) []byte { return e.Assertion.Signature }))
	}, right: func(s scene) { s.by("ed", "", nil, nil) }},
	{rule: approvalSignature, name: "data flipped", at: 1, wrong: func(s scene) {
		s.by("es", "", nil, flip(func(e *ApprovalGranted) []byte { return e.Assertion.AuthenticatorData }))
	}},
	{rule: approvalSignature, name: "client data changed", at: 1, wrong: func(s scene) {
		s.by("es", "", nil, func(e *ApprovalGranted) {
			e.Assertion.ClientDataJSON = bytes.Replace(e.Assertion.ClientDataJSON, []byte("7777"), []byte("7778"), 1)
		})
	}},
	{rule: approvalSignature, name: "the other key's", at: 1, wrong: func(s scene) {
		s.by("es", "", nil, func(e *ApprovalGranted) { e.Assertion.CredentialID = []byte("ed") })
	}},
	{rule: approvalSignature, name: "empty", at: 1, wrong: func(s scene) { s.by("ed", "", nil, func(e *ApprovalGranted) { e.Assertion.Signature = nil }) }},
	{rule: approvalSignature, name: "a registration", at: 1, wrong: func(s scene) { s.by("es", "", client("webauthn.get", "webauthn.create"), nil) }},
	{rule: approvalSignature, name: "no client data", at: 1, wrong: func(s scene) { s.by("es", "", func(c *string, _ *[]byte) { *c = "[]" }, nil) }},
	{rule: approvalSignature, name: "a padded challenge", at: 1, wrong: func(s scene) { s.by("es", "", client(`","origin`, `=","origin`), nil) }},
	{rule: approvalSignature, name: "no args", at: 1, wrong: func(s scene) { s.by("es", "", nil, func(e *ApprovalGranted) { e.Args = nil }) }},
	{rule: approvalSignature, name: "no args, and signed so", at: 1, wrong: func(s scene) {
		nothing := sha256.Sum256([]byte("approval/grant\n"))
		s.by("es", "", func(c *string, _ *[]byte) {
			*c = `{"type":"webauthn.get","challenge":"` + base64.RawURLEncoding.EncodeToString(nothing[:]) + `"}`
		}, func(e *ApprovalGranted) { e.Args = nil })
	}},
	{rule: approvalSignature, name: "other args", at: 1, wrong: func(s scene) {
		s.by("es", `,"uses":2`, nil, func(e *ApprovalGranted) { e.Args = bytes.Replace(e.Args, []byte(`,"uses":2`), nil, 1) })
	}},
	{rule: approvalSignature, name: "nobody there", at: 1, wrong: func(s scene) { s.by("es", "", flags(userVerified), nil) }},
	{rule: approvalSignature, name: "not verified", at: 1, wrong: func(s scene) { s.by("es", "", flags(userPresent), nil) }},
	{rule: approvalSignature, name: "another relying party", at: 1, wrong: func(s scene) { s.by("es", "", func(_ *string, d *[]byte) { (*d)[0] ^= 1 }, nil) }},
	{rule: approvalSignature, name: "another page", at: 1, wrong: func(s scene) { s.by("es", "", client("localhost:7777", "localhost.example:7777"), nil) }},
	{rule: approvalSignature, name: "a page without a port", at: 1, wrong: func(s scene) { s.by("es", "", client("localhost:7777", "localhost"), nil) }},
	{rule: approvalSignature, name: "a secure page", at: 1, wrong: func(s scene) { s.by("es", "", client("http:", "https:"), nil) }},
	{rule: approvalSignature, name: "a frame of another page", at: 1, wrong: func(s scene) { s.by("es", "", client(":false", ":true"), nil) }},
	{rule: approvalSignature, name: "two origins", at: 1, wrong: func(s scene) {
		s.by("es", "", client(`"origin"`, `"origin":"http://localhost:1","origin"`), nil)
	}},
	{rule: approvalSignature, name: "short data", at: 1, wrong: func(s scene) { s.by("es", "", func(_ *string, d *[]byte) { *d = (*d)[:36] }, nil) }},
	{rule: approvalSignature, name: "an unknown kind of key", at: 1, wrong: func(s scene) {
		var err error
		if s.es, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader); err != nil {
			s.t.Fatal(err)
		}
		s.tell(PasskeyRemoved{CredentialID: []byte("es")}, PasskeyAdded{Passkey: "new", CredentialID: []byte("es"), SPKI: spki(s.t, s.es.Public()), RPID: "localhost"})
		s.by("es", "", nil, nil)
	}},
	{rule: approvalSignature, name: "a key that is none", at: 1, wrong: func(s scene) {
		s.tell(PasskeyRemoved{CredentialID: []byte("es")}, PasskeyAdded{Passkey: "new", CredentialID: []byte("es"), SPKI: []byte("x"), RPID: "localhost"})
		s.by("es", "", nil, nil)
	}},
	{rule: passkeyTwice, wrong: func(s scene) { s.tell(PasskeyAdded{Passkey: "new", CredentialID: []byte("es")}) },
		right: func(s scene) {
			s.tell(PasskeyRemoved{CredentialID: []byte("es")}, PasskeyAdded{Passkey: "new", CredentialID: []byte("es")})
		}},
	{rule: passkeyTwice, name: "another key while closed", wrong: func(s scene) {
		s.tell(VaultLocked{}, PasskeyAdded{Passkey: "es", CredentialID: []byte("es"), SPKI: []byte("x"), RPID: "localhost"})
	}, right: func(s scene) {
		s.tell(VaultRestored{}, PasskeyAdded{Passkey: "es", CredentialID: []byte("es"), SPKI: []byte("x"), RPID: "localhost"}, VaultUnlocked{})
	}},
	{rule: passkeyTwice, name: "another key once the backup was opened", wrong: func(s scene) {
		s.tell(VaultRestored{}, VaultUnlocked{}, VaultLocked{}, PasskeyAdded{Passkey: "es", CredentialID: []byte("es"), SPKI: []byte("x"), RPID: "localhost"})
	}},
	{rule: passkeyTwice, name: "another relying party while closed", wrong: func(s scene) {
		s.tell(VaultLocked{}, PasskeyAdded{Passkey: "es", CredentialID: []byte("es"), SPKI: spki(s.t, s.es.Public()), RPID: "example.com"})
	}},
	{rule: approvalSignature, name: "a key told in the place of another by a backup", at: 1, wrong: func(s scene) {
		s.tell(VaultRestored{}, PasskeyAdded{Passkey: "new", CredentialID: []byte("ed"), SPKI: spki(s.t, s.es.Public()), RPID: "localhost"}, VaultUnlocked{})
		s.by("es", "", nil, func(e *ApprovalGranted) { e.Assertion.CredentialID = []byte("ed") })
	}, right: func(s scene) {
		s.tell(VaultLocked{}, PasskeyAdded{Passkey: "es", CredentialID: []byte("es"), SPKI: spki(s.t, s.es.Public()), RPID: "localhost"}, VaultUnlocked{})
		s.by("es", "", nil, nil)
	}},
	{rule: openedTwice, name: "a run", wrong: func(s scene) { s.tell(RunOpened{Run: s.who.run}) }, right: func(s scene) { s.run(500) }},
	{rule: openedTwice, name: "a revoked run", wrong: func(s scene) { s.tell(RunRevoked{Run: s.who.run}, RunOpened{Run: s.who.run}) }},
	{rule: openedTwice, name: "an epoch", wrong: func(s scene) { s.tell(EpochOpened{Run: s.who.run, Epoch: s.who.epoch}) }},
	{rule: openedTwice, name: "an ended epoch", wrong: func(s scene) {
		s.tell(EpochEnded{Run: s.who.run, Epoch: s.who.epoch}, EpochOpened{Run: s.who.run, Epoch: s.who.epoch})
	}},
	{rule: openedTwice, name: "an epoch of the life before", wrong: func(s scene) {
		s.tell(GatewayStarted{}, VaultUnlocked{}, EpochOpened{Run: s.who.run, Epoch: s.who.epoch})
	},
		right: func(s scene) {
			s.tell(GatewayStarted{}, EpochOpened{Run: s.who.run, Epoch: s.who.epoch}, VaultUnlocked{})
		}},
}

// Signed approvals are counted as such, unsigned ones as such, and no other.
func TestApprovalsAreCounted(t *testing.T) {
	s := newScene(t)
	s.by("es", "", nil, nil)
	s.by("ed", "", nil, nil)
	s.grantOnce()
	if v := Check(slices.Values(s.items)); v.Signed != 2 || v.Unsigned != 2 || len(v.Breaches) != 0 {
		t.Errorf("got %+v", v)
	}
	s.by("ed", "", nil, flip(func(e *ApprovalGranted) []byte { return e.Assertion.Signature }))
	if v := Check(slices.Values(s.items)); v.Signed != 2 || v.Unsigned != 2 || len(v.Breaches) != 1 {
		t.Errorf("got %+v", v)
	}
}

// No byte of what is signed, of the request, the card or the key can change without a breach.
func TestEverySignedByteCounts(t *testing.T) {
	for _, name := range []string{"es", "ed"} {
		a := newTale(t)
		a.begin()
		a.enrol()
		a.approve(a.run(100), "p", "run", "agent-run-ends", a.signed(name, "", nil))
		at := len(a.items) - 2
		sound := a.items[at].Event.(ApprovalGranted)
		for field, of := range map[string]func(*ApprovalGranted) *[]byte{
			"card": func(e *ApprovalGranted) *[]byte { return &e.Card }, "args": func(e *ApprovalGranted) *[]byte { return &e.Args },
			"credential": func(e *ApprovalGranted) *[]byte { return &e.Assertion.CredentialID },
			"data":       func(e *ApprovalGranted) *[]byte { return &e.Assertion.AuthenticatorData },
			"client":     func(e *ApprovalGranted) *[]byte { return &e.Assertion.ClientDataJSON },
			"signature":  func(e *ApprovalGranted) *[]byte { return &e.Assertion.Signature },
		} {
			for i := range *of(&sound) {
				e := sound
				b := bytes.Clone(*of(&sound))
				b[i] ^= 1
				*of(&e) = b
				a.items[at].Event = e
				if v := Check(slices.Values(a.items)); len(v.Breaches) == 0 {
					t.Errorf("%s: byte %d of %s changed unnoticed", name, i, field)
				}
			}
		}
		a.items[at].Event = sound
		if v := Check(slices.Values(a.items)); len(v.Breaches) != 0 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
