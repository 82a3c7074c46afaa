package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
)

func (a *app) vaultRekey() *cobra.Command {
	var (
		recovery bool
		others   []int
		asJSON   bool
	)
	cmd := &cobra.Command{
		Use:   "rekey",
		Short: "Seal everything under a new key",
		Long: `Seal everything under a new key, in a new database that takes the place of the old one
in one step. For when somebody may have had the key, such as after removing a slot
whose passphrase leaked. Every grant ends and calls in flight are cancelled; the slots
stay. Copies of before still open as they did: rotate what they held (sp secret rotate).
Where several passphrases open the vault, each is needed.`,
		Args: exactly(),
	}
	ask := a.asker(cmd)
	recoveryFlag(cmd, &recovery)
	cmd.Flags().IntSliceVar(&others, "other-passphrase-fd", nil, "read another slot's passphrase from descriptor `N`; repeatable")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		order := client.Command{Path: api.PathRekey}
		err := ask.early()
		for _, n := range others {
			if err == nil {
				err = a.addKey(&order, n)
			}
		}
		if err == nil {
			order.Proof, err = ask.slot(cmd.Context(), recovery)
		}
		if err == nil && ask.fd < 0 && len(others) == 0 {
			err = a.askOthers(cmd.Context(), &order)
		}
		if err != nil {
			return err
		}
		var r api.Rekeyed
		if err := a.command(cmd.Context(), order, &r); err != nil {
			return err
		}
		if asJSON {
			return a.document(r)
		}
		fmt.Fprintf(a.out, "vault sealed under a new key, generation %d; every grant has ended\n", r.Generation)
		return nil
	}
	return cmd
}

// addKey reads another passphrase from a descriptor.
func (a *app) addKey(order *client.Command, fd int) error {
	secret, err := a.readFD(fd)
	if err != nil {
		return err
	}
	p, err := proofOf(secret)
	if err != nil {
		return err
	}
	order.Keys = append(order.Keys, *p)
	return nil
}

// askOthers asks at the terminal for the passphrases besides the proof's.
func (a *app) askOthers(ctx context.Context, order *client.Command) error {
	slots, err := fetch[api.Slot](ctx, a, api.PathSlotList, nil)
	if err != nil {
		return err
	}
	left := 0
	for _, s := range slots {
		if s.Kind == "passphrase" {
			left++
		}
	}
	if order.Proof.Kind == "passphrase" {
		left--
	}
	for range left {
		secret, err := a.prompt(ctx, "another slot's passphrase: ")
		if err != nil {
			return err
		}
		p, err := proofOf(secret)
		if err != nil {
			return err
		}
		order.Keys = append(order.Keys, *p)
	}
	return nil
}
