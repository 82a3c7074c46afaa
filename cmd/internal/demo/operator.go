package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
	"sallyport/gateway/home"
)

// operator is the person, at the operators' door with the passphrase.
type operator struct {
	door       *client.Client
	passphrase string
	created    api.Created
	pin        []byte // audit.pub as it was when the log was made
}

func newOperator(h home.Home, passphrase string) *operator {
	return &operator{door: client.Operator(h), passphrase: passphrase}
}

// do sends one command, with the proof where its route wants one.
func (o *operator) do(ctx context.Context, path string, args any, v *client.Value, out any) error {
	var p *api.Proof
	if i := slices.IndexFunc(api.Routes, func(r api.Route) bool { return r.Path == path }); i >= 0 && api.Routes[i].Proof {
		p = &api.Proof{Kind: "passphrase", Value: o.passphrase}
	}
	if err := o.door.Do(ctx, path, p, args, v, out); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// addCredential stores a value under its rules.
func (o *operator) addCredential(ctx context.Context, args api.CredentialArgs, value []byte) error {
	v := client.Salt(value)
	args.ValueLength, args.ValueDigest = v.Len(), v.Digest()
	return o.do(ctx, api.PathCredentialAdd, args, v, nil)
}

// errAnswered: the call that should have waited for the operator has ended.
var errAnswered = errors.New("the call was answered without asking")

// card waits for a card of tool to be shown, until the call has ended.
func (o *operator) card(ctx context.Context, tool string, ended <-chan struct{}) (api.Approval, error) {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		var cards []api.Approval
		if err := o.do(ctx, api.PathApprovalList, nil, nil, &cards); err != nil {
			return api.Approval{}, err
		}
		if i := slices.IndexFunc(cards, func(c api.Approval) bool { return c.Tool == tool }); i >= 0 {
			return cards[i], nil
		}
		select {
		case <-look.C:
		case <-ended:
			return api.Approval{}, errAnswered
		case <-ctx.Done():
			return api.Approval{}, ctx.Err()
		}
	}
}

// approve says yes to exactly the card that was shown: this tool with this credential, until the run ends.
func (o *operator) approve(ctx context.Context, c api.Approval) error {
	return o.do(ctx, api.PathApprovalGrant, api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run"}, nil, nil)
}
