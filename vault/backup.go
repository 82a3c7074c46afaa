package vault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"filippo.io/age"
)

// A backup is an age file (age-encryption.org/v1) of the database. Its header
// holds, besides one stanza for each recovery and keychain recipient, which the
// age command opens with that identity,
//
//	-> sallyport-slot SLOT-ID              body: the slot's file; one for each slot
//	-> sallyport-key VAULT-ID GENERATION   body: the file key, sealed under the DEK
//
// so that whatever opened the vault then opens the backup too.
const (
	stanzaSlot = "sallyport-slot"
	stanzaKey  = "sallyport-key"
	useBackup  = "backup"

	maxHeader = 256 << 10 // of a backup: age itself has no limit
)

// Backup writes the whole database, as of the moment of the call, as an age
// file. No passphrase is asked for: the vault is ready. w has a whole backup
// only if the error is nil. It returns whose moment that was. ErrLocked.
func (v *Vault) Backup(ctx context.Context, w io.Writer) (Moved, error) {
	in, src, err := v.moment(ctx)
	if err == nil {
		err = in.backup(ctx, w, src)
	}
	if err != nil {
		return Moved{}, fmt.Errorf("back up vault: %w", err)
	}
	return in.moved(), nil
}

// backup seals src, and ends with it and with in's keys.
func (in *interior) backup(ctx context.Context, w io.Writer, src io.ReadCloser) error {
	defer src.Close()
	defer in.keys.wipe()
	to := []age.Recipient{slotHolders{in}}
	for _, s := range in.slots {
		if s.Kind == PassphraseSlot {
			continue
		}
		r, err := age.ParseHybridRecipient(s.Recipient)
		if err != nil {
			return err
		}
		to = append(to, r)
	}
	sealed, err := age.Encrypt(w, to...)
	if err != nil {
		return err
	}
	if _, err := io.Copy(sealed, reader{ctx, src}); err != nil {
		return err
	}
	return sealed.Close()
}

// moment returns the interior, with keys of its own, and the database of one
// and the same moment.
func (v *Vault) moment(ctx context.Context) (*interior, io.ReadCloser, error) {
	v.write.Lock()
	defer v.write.Unlock()
	in, _, err := v.own()
	if err != nil {
		return nil, nil, err
	}
	src, err := v.store.Copy(ctx)
	if err != nil {
		in.keys.wipe()
		return nil, nil, err
	}
	return in, src, nil
}

// reader ends with its context.
type reader struct {
	ctx context.Context // of the one call that reads
	r   io.Reader
}

func (r reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

// slotHolders is the age.Recipient of whoever opens one of the vault's slots.
type slotHolders struct{ in *interior }

func (h slotHolders) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	k := h.in.keys
	generation := strconv.FormatUint(k.generation, 10)
	out := []*age.Stanza{{Type: stanzaKey, Args: []string{k.vault.String(), generation},
		Body: k.seal(useBackup, k.useAD(useBackup, nil), fileKey)}}
	for _, s := range h.in.slots {
		out = append(out, &age.Stanza{Type: stanzaSlot, Args: []string{s.ID}, Body: s.row.Data})
	}
	return out, nil
}

// WrapWithLabels says that Wrap is as good as the hybrid recipients beside it:
// the slots are such, or scrypt's.
func (h slotHolders) WrapWithLabels(fileKey []byte) ([]*age.Stanza, []string, error) {
	s, err := h.Wrap(fileKey)
	return s, []string{"postquantum"}, err
}

// opener is the age.Identity of whoever has the key of a slot.
type opener struct {
	key  Key
	keys *keys // found: of the backup's generation
	err  error // why not, of the errors of this package
}

func (o *opener) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	var rows []Row
	var sealed *age.Stanza
	for _, s := range stanzas {
		switch {
		case s.Type == stanzaSlot && len(s.Args) == 1:
			rows = append(rows, Row{ID: s.Args[0], Table: tableSlot, Data: s.Body})
		case s.Type == stanzaKey && len(s.Args) == 2:
			sealed = s
		}
	}
	if sealed == nil || len(rows) == 0 || len(rows) > maxSlots {
		o.err = fmt.Errorf("no backup of a vault: %w", ErrInvalid)
		return nil, o.err
	}
	generation, err := strconv.ParseUint(sealed.Args[1], 10, 63)
	if err != nil {
		o.err = fmt.Errorf("backup's generation: %w", ErrInvalid)
		return nil, o.err
	}
	var fileKey []byte
	o.keys, _, o.err = openSlot(rows, o.key, func(k *keys, _ Row) bool {
		k.generation = generation
		fileKey, err = k.unseal(useBackup, k.useAD(useBackup, nil), sealed.Body, nil)
		return err == nil && k.vault.String() == sealed.Args[0]
	})
	return fileKey, o.err
}

// openBackup reads a backup's header with k. The plaintext that src then gives
// is a whole one only if it ends with io.EOF.
func openBackup(r io.Reader, k Key) (*keys, io.Reader, error) {
	head := &limited{r: r, left: maxHeader}
	o := &opener{key: k}
	src, err := age.Decrypt(head, o)
	if err != nil {
		o.keys.wipe()
		if o.err != nil {
			return nil, nil, o.err
		}
		return nil, nil, fmt.Errorf("read backup: %w: %w", ErrInvalid, err)
	}
	head.left = -1
	return o.keys, src, nil
}

// CheckBackup says of which vault a backup is that k opens, and reads all of it;
// what its database holds is another matter. It shares Unlock's one attempt at a
// time. ErrWrongKey; ErrInvalid: it is no whole backup.
func (v *Vault) CheckBackup(ctx context.Context, r io.Reader, k Key) (vaultID string, err error) {
	if err := v.begin(ctx); err != nil {
		return "", fmt.Errorf("check backup: %w", err)
	}
	defer v.end()
	keys, src, err := openBackup(r, k)
	if err != nil {
		return "", fmt.Errorf("check backup: %w", err)
	}
	defer keys.wipe()
	if _, err := io.Copy(io.Discard, reader{ctx, src}); err != nil {
		return "", fmt.Errorf("check backup: %w: %w", ErrInvalid, err)
	}
	return keys.vault.String(), nil
}

// limited reads no more than left bytes; -1: all.
type limited struct {
	r    io.Reader
	left int
}

var errHeader = errors.New("header is too long")

func (l *limited) Read(b []byte) (int, error) {
	switch {
	case l.left < 0:
		return l.r.Read(b)
	case l.left == 0:
		return 0, errHeader
	}
	n, err := l.r.Read(b[:min(len(b), l.left)])
	l.left -= n
	return n, err
}
