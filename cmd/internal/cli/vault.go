package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

func (a *app) initVault() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make a new vault and its audit log, and pin the log's key",
		Long: `Make a new vault and its audit log, left ready. The passphrase has at least 8
characters. Prints the recovery and the reader identity: once, they are stored
nowhere. The log's public key is pinned for this user.`,
		Args: exactly(),
	}
	ask := a.asker(cmd)
	ask.need = needAbsent
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		proof, err := ask.newProof(ctx)
		if err != nil {
			return err
		}
		var c api.Created
		if err := a.do(ctx, api.PathInit, proof, nil, nil, &c); err != nil {
			return err
		}
		// The identities first: whatever fails now, they are not lost.
		if asJSON {
			shown := c
			shown.AuditKey = "" // it is in the pin
			err = a.document(shown)
		} else {
			a.showCreated(c)
		}
		if err != nil {
			return err
		}
		return a.pinNew(c)
	}
	return cmd
}

func (a *app) showCreated(c api.Created) {
	fmt.Fprintf(a.out, `vault %s is ready

Recovery identity. It opens the vault when the passphrase is lost: print it, keep
it away from this machine.
  %s

Reader identity. It reads the audit log and nothing else: for whoever reviews what
was done, in a file that --identity names.
  %s

Neither is shown again, and neither is stored here.
audit key  %s
`, escape(c.VaultID), escape(c.RecoveryIdentity), escape(c.ReaderIdentity), escape(c.Fingerprint))
}

func (a *app) unlock() *cobra.Command {
	var recovery, keychain bool
	cmd := &cobra.Command{
		Use:   "unlock",
		Short: "Unlock the vault",
		Long: `Unlock the vault with the passphrase, with its recovery identity (--recovery), or with
what sp vault slot add keychain left in this session's keychain (--keychain).`,
		Args: exactly(),
	}
	ask := a.asker(cmd)
	ask.need = needSome
	recoveryFlag(cmd, &recovery)
	cmd.Flags().BoolVar(&keychain, "keychain", false, "open the vault with the keychain's slot; nothing is asked for")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		proof := &api.Proof{Kind: "keychain"}
		switch {
		case keychain && (recovery || ask.fd >= 0):
			return usage("--keychain goes with neither --recovery nor --passphrase-fd")
		case !keychain:
			var err error
			if proof, err = ask.slot(cmd.Context(), recovery); err != nil {
				return err
			}
		}
		return a.turn(cmd.Context(), api.PathUnlock, proof, nil)
	}
	return cmd
}

func (a *app) lock() *cobra.Command {
	return &cobra.Command{
		Use:   "lock",
		Short: "Lock the vault: every grant ends, every action is refused",
		Args:  exactly(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.turn(cmd.Context(), api.PathLock, nil, nil) },
	}
}

// turn unlocks, locks or releases, and says how the vault is now.
func (a *app) turn(ctx context.Context, path string, p *api.Proof, args any) error {
	var s api.Status
	if err := a.do(ctx, path, p, args, nil, &s); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "vault %s\n", escape(s.Vault))
	return nil
}

func (a *app) status() *cobra.Command {
	var (
		asJSON bool
		wait   time.Duration
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the gateway's state",
		Long: `Show the gateway's state. Exit 0 once it answers, whatever the vault's state; 5
when it does not.`,
		Args: exactly(),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait as long as `TIME` for the gateway to answer")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var (
			s   api.Status
			err error
		)
		if wait > 0 {
			s, err = a.await(cmd.Context(), wait, nil)
		} else {
			s, err = a.ask(cmd.Context())
		}
		switch {
		case err != nil:
			return err
		case asJSON:
			return a.document(s)
		}
		a.showStatus(s)
		return nil
	}
	return cmd
}

// vaultState is the vault's state for people, with the step that makes it ready.
func vaultState(state string) string {
	switch state {
	case "absent":
		return "absent (`sp init` makes one)"
	case "locked":
		return "locked (`sp unlock` opens it)"
	case "quarantined":
		return "quarantined (`sp vault release` says why)"
	}
	return state
}

func (a *app) showStatus(s api.Status) {
	var runs []string
	for _, state := range slices.Sorted(maps.Keys(s.Runs)) {
		runs = append(runs, fmt.Sprintf("%d %s", s.Runs[state], state))
	}
	if runs == nil {
		runs = []string{"none"}
	}
	console := ""
	if s.Console != "" {
		console = s.Console + " (`sp console` opens it)"
	}
	unresolved := ""
	if s.Unresolved > 0 {
		unresolved = fmt.Sprintf("%d of unknown outcome: `sp action ls` shows sent_unconfirmed, `sp action resolve` says what became of it", s.Unresolved)
	}
	facts(a.out, "",
		"vault", vaultState(s.Vault),
		"because", s.Quarantine,
		"gateway", fmt.Sprintf("version %s, pid %d", s.Version, s.PID),
		"console", console,
		"runs", strings.Join(runs, ", "),
		"cards", strconv.Itoa(s.PendingApprovals)+" waiting",
		"writes", unresolved,
		"audit log", fmt.Sprintf("%d records", s.Audit.Records),
		"head", s.Audit.Head,
	)
	if s.Unproved > 0 {
		a.say("%s", unprovedLine(s.Unproved))
	}
}
