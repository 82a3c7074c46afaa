package proof

import (
	"testing"

	"sallyport/gateway/api"
)

// Nothing that was not signed for a request proves it, whatever is sent.
func FuzzCheck(f *testing.F) {
	s := newSoft(f, "ES256")
	k := s.enrolled()
	f.Add(value(s.assert(requestB, nil)))
	f.Add(value(s.assert(requestB, func(x *said) { x.flags |= 1 << 7; x.more = `,"topOrigin":""` })))
	f.Add(`{"credentialId":"AA","authenticatorData":"AA","clientDataJSON":"e30","signature":"AA"}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := party().Check([]Passkey{k}, requestA, text); err == nil {
			t.Errorf("taken: %q", text)
		}
	})
}

// No bytes of an authenticator's first answer do anything but fail, or make a key that a reviewer can read.
func FuzzFinish(f *testing.F) {
	s := newSoft(f, "EdDSA")
	options, _, err := party().Begin("laptop", nil)
	if err != nil {
		f.Fatal(err)
	}
	r := s.register(options, nil)
	client, _ := b64.DecodeString(r.ClientDataJSON)
	object, _ := b64.DecodeString(r.AttestationObject)
	f.Add(s.id, client, object)
	f.Add([]byte{1}, []byte("{}"), []byte{0xa0})
	f.Fuzz(func(t *testing.T, id, client, object []byte) {
		_, c, err := party().Begin("laptop", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Finish(api.Registration{CredentialID: b64.EncodeToString(id), ClientDataJSON: b64.EncodeToString(client), AttestationObject: b64.EncodeToString(object)})
		if code(err) != "proof_wrong" { // its challenge is new, so none is right
			t.Errorf("%v", err)
		}
	})
}
