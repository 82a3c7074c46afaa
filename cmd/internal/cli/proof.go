package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"sallyport/gateway/api"
)

// passphraseLimit bounds a passphrase, in bytes.
const passphraseLimit = 4096

// asker collects the operator's proof: from a descriptor, else at the terminal.
type asker struct {
	a       *app
	fd      int // -1: ask at the terminal
	need    need
	was     *api.Proof
	reached bool // a gateway answered, its vault as needed
}

// asker adds the flag --passphrase-fd to cmd.
func (a *app) asker(cmd *cobra.Command) *asker {
	p := &asker{a: a}
	cmd.Flags().IntVar(&p.fd, "passphrase-fd", -1, "read the operator's passphrase from descriptor `N`, to its end")
	return p
}

// early reads the descriptor, if one is named: before anything else opens one that could get its number.
func (p *asker) early() error {
	if p.fd < 0 || p.was != nil {
		return nil
	}
	secret, err := p.a.readFD(p.fd)
	if err != nil {
		return err
	}
	p.was, err = proofOf(secret)
	return err
}

// recoveryFlag adds the flag --recovery to cmd.
func recoveryFlag(cmd *cobra.Command, recovery *bool) {
	cmd.Flags().BoolVar(recovery, "recovery", false, "open the vault with its recovery identity, asked for in the passphrase's place")
}

// slot is what opens a slot of the vault: the passphrase, or the recovery identity.
func (p *asker) slot(ctx context.Context, recovery bool) (*api.Proof, error) {
	if !recovery {
		return p.proof(ctx)
	}
	if err := p.early(); err != nil {
		return nil, err
	}
	if p.was == nil {
		if err := p.reach(ctx); err != nil {
			return nil, err
		}
		secret, err := p.a.prompt(ctx, "recovery identity: ")
		if err != nil {
			return nil, err
		}
		if p.was, err = proofOf(secret); err != nil {
			return nil, err
		}
	}
	return &api.Proof{Kind: "recovery", Value: strings.TrimSpace(p.was.Value)}, nil
}

// proof is the operator's proof.
func (p *asker) proof(ctx context.Context) (*api.Proof, error) {
	if err := p.early(); err != nil || p.was != nil {
		return p.was, err
	}
	if err := p.reach(ctx); err != nil {
		return nil, err
	}
	secret, err := p.a.prompt(ctx, "passphrase: ")
	if err != nil {
		return nil, err
	}
	return proofOf(secret)
}

// leastPassphrase is how short a new passphrase may be, in characters. The gateway counts bytes.
const leastPassphrase = 8

// newProof is the proof that sets a passphrase: long enough, and asked for twice.
func (p *asker) newProof(ctx context.Context) (*api.Proof, error) {
	if err := p.early(); err != nil {
		return nil, err
	}
	if p.was != nil {
		return p.was, longEnough([]byte(p.was.Value))
	}
	if err := p.reach(ctx); err != nil {
		return nil, err
	}
	secret, err := p.a.twice(ctx)
	if err != nil {
		return nil, err
	}
	return proofOf(secret)
}

func longEnough(secret []byte) error {
	if n := utf8.RuneCount(secret); n > 0 && n < leastPassphrase {
		return &adviceError{api.Fail("proof_required", fmt.Sprintf("the new passphrase has %d characters; it needs %d or more", n, leastPassphrase)),
			"choose a longer one: whoever copies the vault can try passphrases at leisure"}
	}
	return nil
}

func proofOf(secret []byte) (*api.Proof, error) {
	defer clear(secret)
	switch {
	case len(secret) == 0:
		return nil, api.Fail("proof_required", "the passphrase is empty")
	case !utf8.Valid(secret):
		return nil, usage("the passphrase is not UTF-8")
	}
	return &api.Proof{Kind: "passphrase", Value: string(secret)}, nil
}

// readFD reads descriptor n to its end and drops one trailing newline.
func (a *app) readFD(n int) ([]byte, error) {
	f, err := a.fd(n)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readSecret(f, passphraseLimit, fmt.Sprintf("descriptor %d", n))
}

// readSecret reads r to its end, at most limit bytes, and drops one trailing newline.
func readSecret(r io.Reader, limit int, what string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(limit)+2))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	if len(b) > limit {
		return nil, usage("%s holds more than %d bytes", what, limit)
	}
	return b, nil
}

// value reads a credential's value: at the terminal without echo, or stdin where that is none.
func (a *app) value(ctx context.Context, ask string, lines bool) ([]byte, error) {
	var (
		b   []byte
		err error
	)
	switch {
	case !a.inTTY:
		b, err = readSecret(a.in, api.ValueLimit, "stdin")
	case lines:
		return nil, usage("this value has several lines: give it on stdin, as in `… < FILE`")
	default:
		b, err = a.prompt(ctx, ask)
	}
	if err == nil && len(b) == 0 {
		return nil, usage("the value is empty")
	}
	return b, err
}

// prompt asks at the controlling terminal, without echo. An interrupt gives the terminal its echo back.
func (a *app) prompt(ctx context.Context, ask string) ([]byte, error) {
	tty, err := a.tty()
	if err != nil {
		return nil, api.Fail("proof_required", "there is no terminal to ask at")
	}
	fd := int(tty.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		tty.Close()
		return nil, api.Fail("proof_required", "there is no terminal to ask at")
	}
	fmt.Fprint(tty, ask)
	type line struct {
		text []byte
		err  error
	}
	read := make(chan line, 1)
	go func() { // ends with the line, or with the process: nothing wakes a terminal's read
		b, err := term.ReadPassword(fd)
		read <- line{b, err}
	}()
	select {
	case l := <-read:
		fmt.Fprintln(tty)
		tty.Close()
		if l.err != nil && !errors.Is(l.err, io.EOF) {
			return nil, fmt.Errorf("read terminal: %w", l.err)
		}
		return l.text, nil
	case <-ctx.Done():
		restore(tty, before)
		return nil, errInterrupted
	}
}

// restore leaves tty open: its reader still holds the descriptor's number.
func restore(tty *os.File, before *term.State) {
	term.Restore(int(tty.Fd()), before)
	fmt.Fprintln(tty)
}
