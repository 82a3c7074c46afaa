package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog/event"
	"sallyport/vault"
)

// keeper saves what one call minted with its credential. It is the one write to the vault that no operator proves, so
// it is narrow: the derived value of the very credential the call was granted, at the version it was granted, and nothing
// that a decision looks at. A token can't be given to another credential, nor change where its own may go.
type keeper struct {
	g    *Gateway
	of   vault.Ref
	kept event.TokenKept // without the field
}

// Kept returns a copy, nil where there is none.
func (k keeper) Kept(ctx context.Context, field string) (out []byte, err error) {
	err = k.g.derived(ctx, k.of.Name, func(fields map[string][]byte) { out = bytes.Clone(fields[field]) })
	return out, err
}

// Keep is durable on return: the row with its event in one transaction, then the log. It may wait for g.authority, which
// nobody holds while waiting for a call. The call's own end does not stop it: what was minted is spent elsewhere.
func (k keeper) Keep(ctx context.Context, field string, value []byte) error {
	g, ev := k.g, k.kept
	ev.Field = field
	g.authority.Lock()
	defer g.authority.Unlock()
	doc := []byte(nil)
	err := g.derived(ctx, k.of.Name, func(fields map[string][]byte) {
		fields[field] = bytes.Clone(value)
		doc = encode(fields)
	})
	if err != nil {
		return err
	}
	defer clear(doc)
	err = g.changeVault(ctx, []event.Event{ev}, func(ctx context.Context, also []byte) error {
		return g.vault.Apply(ctx, also, func(e *vault.Edit) error { return e.SetDerived(k.of.Name, k.of.Version, doc) })
	})
	if err != nil {
		return fmt.Errorf("keep %s of %s: %w", field, k.of.Name, err)
	}
	return nil
}

// derived lends what is kept for a credential, by field; an empty map where there is nothing yet.
func (g *Gateway) derived(ctx context.Context, credential string, use func(map[string][]byte)) error {
	fields := map[string][]byte{}
	defer func() {
		for _, b := range fields {
			clear(b)
		}
	}()
	err := g.vault.With(ctx, vault.Ref{Table: vault.Internal, Name: vault.Derived(credential)}, func(s vault.Secret) error {
		return json.Unmarshal(s.Bytes(), &fields)
	})
	if err != nil && !errors.Is(err, vault.ErrUnknown) {
		return fmt.Errorf("read what is kept for %s: %w", credential, err)
	}
	use(fields)
	return nil
}
