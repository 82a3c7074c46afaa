package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

// passkeyPrefix starts the id of every passkey.
const passkeyPrefix = "pk_"

func (a *app) passkeys() *cobra.Command {
	ls := listing(a, "ls", "List the passkeys", api.PathPasskeyList,
		[]column{{"ID", ids}, {"NAME", words}, {"ALGORITHM", fixed}, {"KEPT", fixed}, {"ADDED", fixed}, {"BY", words}}, func(k api.Passkey) []string {
			kept := "one device"
			if k.Synced {
				kept = "synced"
			}
			return []string{k.ID, k.Name, k.Algorithm, kept, k.AddedAt.Local().Format("2006-01-02 15:04"), k.AddedBy}
		})
	return group("passkey", "Let a passkey answer for the operator", a.passkeyAdd(), ls, a.passkeyRemove())
}

func (a *app) passkeyAdd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "add [NAME]",
		Short: "Make a passkey, on a page of the console",
		Long: `Make a passkey that proves later requests in the passphrase's place, and that a
credential with --confirm passkey wants for each use. NAME is for you: laptop, blue key.
Prints the page's address, which works once, for ten minutes. Open it in a browser of
this machine; the authenticator must verify you, by PIN, finger or face.`,
		Args: atMost(1),
	}
	ask := a.asker(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object: url, expiresAt, name")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		var args api.PasskeyArgs
		if len(words) > 0 {
			args.Name = words[0]
		}
		proof, err := ask.proof(cmd.Context())
		if err != nil {
			return err
		}
		var e api.Enrolment
		if err := a.do(cmd.Context(), api.PathPasskeyAdd, proof, args, nil, &e); err != nil {
			return err
		}
		if asJSON {
			return a.document(e)
		}
		fmt.Fprintln(a.out, e.URL)
		a.say("open this page to make the passkey %s; it works once, until %s", escape(e.Name), e.ExpiresAt.Local().Format(time.TimeOnly))
		return nil
	}
	return cmd
}

func (a *app) passkeyRemove() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rm ID",
		Short: "Let a passkey prove nothing any more",
		Long: `Let a passkey prove nothing any more, and end the sittings it opened. What it approved
stays: revoke a run or a grant for that. ID may be a name.`,
		Args: exactly("ID"),
	}
	ask := a.asker(cmd)
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		if err := ask.early(); err != nil {
			return err
		}
		all, err := fetch[api.Passkey](cmd.Context(), a, api.PathPasskeyList, nil)
		if err != nil {
			return err
		}
		id := words[0]
		ids := make([]string, len(all))
		for i, k := range all {
			if ids[i] = k.ID; k.Name == words[0] {
				id = k.ID
			}
		}
		if id, err = resolve(passkeyPrefix, id, ids); err != nil {
			return err
		}
		proof, err := ask.proof(cmd.Context())
		if err != nil {
			return err
		}
		var gone api.Passkey
		if err := a.do(cmd.Context(), api.PathPasskeyRemove, proof, api.IDArgs{ID: id}, nil, &gone); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "removed passkey %s (%s)\n", escape(gone.Name), escape(gone.ID))
		if len(all) == 1 {
			a.say("it was the last one: a credential with confirm passkey is refused until another is added")
		}
		return nil
	}
	return cmd
}
