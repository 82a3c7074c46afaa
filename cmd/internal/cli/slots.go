package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
)

func (a *app) vaultSlots() *cobra.Command {
	return listing(a, "slots", "List what opens the vault", api.PathSlotList,
		[]column{{"ID", vital}, {"KIND", words}, {"CREATED", times}},
		func(s api.Slot) []string { return []string{s.ID, s.Kind, stamp(s.CreatedAt)} })
}

func (a *app) vaultSlot() *cobra.Command {
	return group("slot", "Each slot opens the vault with a key of its own", a.slotAdd(), a.slotRemove())
}

func (a *app) slotAdd() *cobra.Command {
	var recovery, asJSON bool
	cmd := &cobra.Command{
		Use:   "add KIND",
		Short: "Let another key open the vault",
		Long: `Let another key open the vault. Nothing that is there is sealed anew, and the other
slots stay. KIND is

  passphrase  another one, asked for twice, or on stdin where that is no terminal
  recovery    a fresh identity, printed once: to renew the one from sp init, add one,
              keep it, and remove the old slot. The log is then sealed to the new one
  keychain    an identity kept in this session's keychain, for sp unlock --keychain. A
              convenience: on Linux every process of the session can read it, and so
              open a copy of the vault. It is never the only slot`,
		Example: "  sp vault slot add recovery",
		Args:    exactly("KIND"),
	}
	ask := a.asker(cmd)
	recoveryFlag(cmd, &recovery)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		args := api.SlotArgs{Kind: words[0]}
		switch args.Kind {
		case "passphrase", "recovery", "keychain":
		default:
			return usage("KIND is passphrase, recovery or keychain")
		}
		proof, err := ask.slot(cmd.Context(), recovery)
		if err != nil {
			return err
		}
		var value *client.Value
		if args.Kind == "passphrase" {
			next, err := ask.newValue(cmd.Context())
			if err != nil {
				return err
			}
			defer clear(next)
			value = client.Salt(next)
			args.ValueLength, args.ValueDigest = value.Len(), value.Digest()
		}
		var added api.AddedSlot
		if err := a.do(cmd.Context(), api.PathSlotAdd, proof, args, value, &added); err != nil {
			return err
		}
		if asJSON {
			return a.document(added)
		}
		a.showSlot(added)
		return nil
	}
	return cmd
}

func (a *app) showSlot(added api.AddedSlot) {
	if added.RecoveryIdentity != "" {
		fmt.Fprintf(a.out, `Recovery identity. It opens the vault when the passphrase is lost: print it, keep
it away from this machine. It is not shown again, and it is not stored here.
  %s
`, escape(added.RecoveryIdentity))
	}
	fmt.Fprintf(a.out, "added slot %s (%s)\n", escape(added.Slot.ID), escape(added.Slot.Kind))
}

func (a *app) slotRemove() *cobra.Command {
	var recovery bool
	cmd := &cobra.Command{
		Use:   "rm ID",
		Short: "Let a key open the vault no more",
		Long: `Let a key open the vault no more. One slot that is not in a keychain always stays.
Whoever has an older copy of the vault can still open that copy with the key: after
a leak, sp vault rekey as well, and rotate what the vault holds.`,
		Args: exactly("ID"),
	}
	ask := a.asker(cmd)
	recoveryFlag(cmd, &recovery)
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		proof, err := ask.slot(cmd.Context(), recovery)
		if err != nil {
			return err
		}
		id, err := complete(cmd.Context(), a, "", words[0], api.PathSlotList, func(s api.Slot) string { return s.ID })
		if err != nil {
			return err
		}
		if err := a.do(cmd.Context(), api.PathSlotRemove, proof, api.IDArgs{ID: id}, nil, nil); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "removed slot %s\n", escape(id))
		return nil
	}
	return cmd
}

func (a *app) vaultPassphrase() *cobra.Command {
	var recovery bool
	cmd := &cobra.Command{
		Use:   "passphrase",
		Short: "Change the passphrase",
		Long: `Change the passphrase that is given as proof; with --recovery, set a new one for one
that is lost. The new one is asked for twice, or read from stdin where that is no
terminal. Older copies of the vault still open with the old one.`,
		Args: exactly(),
	}
	ask := a.asker(cmd)
	recoveryFlag(cmd, &recovery)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		proof, err := ask.slot(cmd.Context(), recovery)
		if err != nil {
			return err
		}
		next, err := ask.newValue(cmd.Context())
		if err != nil {
			return err
		}
		defer clear(next)
		value := client.Salt(next)
		args := api.PassphraseArgs{ValueLength: value.Len(), ValueDigest: value.Digest()}
		var added api.AddedSlot
		if err := a.do(cmd.Context(), api.PathPassphrase, proof, args, value, &added); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "passphrase changed, slot %s\n", escape(added.Slot.ID))
		return nil
	}
	return cmd
}

// newValue is a passphrase to be set: asked for twice at the terminal, or stdin where that is none.
func (p *asker) newValue(ctx context.Context) ([]byte, error) {
	if !p.a.inTTY {
		if p.fd == 0 {
			return nil, usage("stdin holds the new passphrase: give the present one on another descriptor")
		}
		b, err := readSecret(p.a.in, passphraseLimit, "stdin")
		if err != nil {
			return nil, err
		}
		if len(b) == 0 {
			return nil, usage("the new passphrase is empty")
		}
		return b, longEnough(b)
	}
	return p.a.twice(ctx)
}

// twice asks for a new passphrase at the terminal.
func (a *app) twice(ctx context.Context) ([]byte, error) {
	secret, err := a.prompt(ctx, fmt.Sprintf("new passphrase (%d characters or more): ", leastPassphrase))
	if err != nil {
		return nil, err
	}
	if err := longEnough(secret); err != nil {
		clear(secret)
		return nil, err
	}
	again, err := a.prompt(ctx, "again: ")
	if err != nil {
		return nil, err
	}
	defer clear(again)
	if !bytes.Equal(secret, again) {
		clear(secret)
		return nil, &adviceError{errors.New("the two passphrases differ"), "try again"}
	}
	return secret, nil
}
