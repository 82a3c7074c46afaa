package main_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/descope/virtualwebauthn"
	"github.com/go-json-experiment/json"
	"github.com/rogpeppe/go-internal/testscript"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
	"sallyport/gateway/home"
)

// authenticator is a passkey and the browser before it, of one script.
type authenticator struct {
	rp   virtualwebauthn.RelyingParty
	auth virtualwebauthn.Authenticator
	cred virtualwebauthn.Credential
}

// cmdAuthenticator makes a passkey on the page whose address was just printed, or says yes with it to the card $CARD.
func cmdAuthenticator(ts *testscript.TestScript, neg bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := partsOf(ts)
	switch {
	case len(args) == 1 && args[0] == "make":
		p.key = &authenticator{}
		expect(ts, neg, p.key.make(ctx, strings.TrimSpace(ts.ReadFile("stdout"))))
	case len(args) == 1 && args[0] == "approve" && p.key != nil:
		h, err := home.Find(ts.Getenv)
		ts.Check(err)
		expect(ts, neg, p.key.approve(ctx, h, ts.Getenv("CARD")))
	default:
		ts.Fatalf("usage: authenticator make|approve")
	}
}

// put is one request of the page, which has no session: the ticket is its key.
func (a *authenticator) put(ctx context.Context, path string, args, out any) error {
	body, err := json.Marshal(map[string]any{"args": args})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.rp.Origin+api.OperatorPrefix+path, bytes.NewReader(append(body, '\n')))
	if err != nil {
		return err
	}
	r.Header.Set("Origin", a.rp.Origin)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if body, err = io.ReadAll(res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d %s", path, res.StatusCode, body)
	}
	return json.Unmarshal(body, out)
}

func (a *authenticator) make(ctx context.Context, url string) error {
	origin, ticket, ok := strings.Cut(url, "/passkey#")
	if !ok {
		return fmt.Errorf("no page: %q", url)
	}
	a.rp = virtualwebauthn.RelyingParty{Name: "Sallyport", ID: api.RPID, Origin: origin}
	var c api.Creation
	if err := a.put(ctx, api.PathPasskeyOpen, api.TicketArgs{Ticket: ticket}, &c); err != nil {
		return err
	}
	asked, err := virtualwebauthn.ParseAttestationOptions(string(c.Options))
	if err != nil {
		return err
	}
	a.auth = virtualwebauthn.NewAuthenticatorWithOptions(virtualwebauthn.AuthenticatorOptions{UserHandle: []byte(asked.UserID)})
	a.cred = newPasskey()
	var made struct {
		ID       string           `json:"id"`
		Response api.Registration `json:"response"`
	}
	if err := json.Unmarshal([]byte(virtualwebauthn.CreateAttestationResponse(a.rp, a.auth, a.cred, *asked)), &made); err != nil {
		return err
	}
	made.Response.CredentialID = made.ID
	return a.put(ctx, api.PathPasskeyEnrol, api.EnrolArgs{Ticket: ticket, Registration: made.Response}, &api.Passkey{})
}

func (a *authenticator) approve(ctx context.Context, h home.Home, id string) error {
	c := client.Operator(h)
	defer c.Close()
	var cards []api.Approval
	if err := c.Do(ctx, api.PathApprovalList, nil, nil, nil, &cards); err != nil {
		return err
	}
	for _, card := range cards {
		if card.ID != id {
			continue
		}
		args := api.ApproveArgs{ID: card.ID, CardDigest: card.CardDigest, Scope: "use"}
		doc, err := json.Marshal(args)
		if err != nil {
			return err
		}
		challenge, err := api.Challenge(api.PathApprovalGrant, doc)
		if err != nil {
			return err
		}
		var got struct {
			ID       string        `json:"id"`
			Response api.Assertion `json:"response"`
		}
		answer := virtualwebauthn.CreateAssertionResponse(a.rp, a.auth, a.cred, virtualwebauthn.AssertionOptions{Challenge: challenge[:], RelyingPartyID: api.RPID})
		if err := json.Unmarshal([]byte(answer), &got); err != nil {
			return err
		}
		got.Response.CredentialID = got.ID
		value, err := json.Marshal(got.Response)
		if err != nil {
			return err
		}
		return c.Do(ctx, api.PathApprovalGrant, &api.Proof{Kind: "passkey", Value: string(value)}, args, nil, &api.Grant{})
	}
	return fmt.Errorf("card %s does not wait", id)
}

// newPasskey is a new P-256 passkey. The library writes coordinates without their leading zeros, which no authenticator does
// (RFC 9053, 7.1.1): about one key in 128 is not taken, and is drawn anew.
func newPasskey() virtualwebauthn.Credential {
	const whole = 77 // bytes of a COSE key with both coordinates in full
	for {
		if c := virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2); len(c.Key.AttestationData()) == whole {
			return c
		}
	}
}
