package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
)

// sent is a credential's value on its way: with its salt, with the passphrase of a key file as its last bytes, and with
// the operator's proof.
type sent struct {
	*client.Value
	passphrase int
	proof      *api.Proof
}

func keyPassphraseFlag(cmd *cobra.Command, fd *int) {
	cmd.Flags().IntVar(fd, "key-passphrase-fd", -1, "ssh-key, ssh-ca: read the key file's passphrase from descriptor `N`")
}

// sendValue reads a value and the proof and gives them to send. Where the gateway finds that the value is an encrypted
// key file, its passphrase is asked for, if there is a terminal to ask at, and send is called once more.
func (a *app) sendValue(ctx context.Context, ask *asker, keyFD int, name string, lines bool, send func(sent) error) error {
	if !a.inTTY && (ask.fd == 0 || keyFD == 0) {
		return usage("stdin holds the value: give the passphrase on another descriptor")
	}
	if err := ask.early(); err != nil {
		return err
	}
	var phrase []byte
	if keyFD >= 0 {
		var err error
		if phrase, err = a.readFD(keyFD); err != nil {
			return err
		}
	}
	defer func() { clear(phrase) }()
	if a.inTTY {
		if err := ask.reach(ctx); err != nil {
			return err
		}
	}
	value, err := a.value(ctx, name+" (value): ", lines)
	if err != nil {
		return err
	}
	defer clear(value)
	proof, err := ask.proof(ctx)
	if err != nil {
		return err
	}
	for {
		all := slices.Concat(value, phrase)
		err := send(sent{client.Salt(all), len(phrase), proof})
		clear(all)
		if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != "passphrase_required" || len(phrase) > 0 {
			return err
		}
		var unasked error
		if phrase, unasked = a.prompt(ctx, "passphrase of the key file: "); unasked != nil || len(phrase) == 0 {
			return err
		}
	}
}

// noValue takes the arguments that names lists. What comes besides is not shown: it may be a secret that somebody took
// for an argument.
func noValue(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > len(names) {
			return usage("too many arguments; a value is never one: it is asked for, or read from stdin")
		}
		return exactly(names...)(cmd, args)
	}
}
