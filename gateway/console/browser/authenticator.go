package browser

import (
	"context"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// Authenticator is a virtual one in a tab's browser, which verifies its user as a fingerprint reader would.
type Authenticator struct {
	b  *Tab
	id webauthn.AuthenticatorID
}

// Authenticator adds one. It is made for the page that is shown, and lasts as long as the tab does.
func (b *Tab) Authenticator() *Authenticator {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, Patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, webauthn.Enable, webauthn.EnableParams{}); err != nil {
		b.t.Fatal(err)
	}
	got, err := chromedp.Call(ctx, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: "ctap2", Transport: "internal", HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true}})
	if err != nil {
		b.t.Fatal(err)
	}
	return &Authenticator{b, got.AuthenticatorID}
}

// Knows says whether the next user is the one it knows.
func (a *Authenticator) Knows(yes bool) {
	a.b.t.Helper()
	if _, err := chromedp.Call(a.b.Ctx, webauthn.SetUserVerified, webauthn.SetUserVerifiedParams{AuthenticatorID: a.id, IsUserVerified: yes}); err != nil {
		a.b.t.Fatal(err)
	}
}

// Lies makes its answers say that the user was not verified, was not there, or bear no signature; all false: it is honest.
func (a *Authenticator) Lies(unverified, absent, unsigned bool) {
	a.b.t.Helper()
	if _, err := chromedp.Call(a.b.Ctx, webauthn.SetResponseOverrideBits, webauthn.SetResponseOverrideBitsParams{AuthenticatorID: a.id,
		IsBadUV: &unverified, IsBadUP: &absent, IsBogusSignature: &unsigned}); err != nil {
		a.b.t.Fatal(err)
	}
}
