package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
)

func (a *app) backup() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write the vault to a file that only its own keys open",
		Long: `Write the vault to FILE, which must not be there yet: one age file of the database as
of one moment, every row in it still sealed. It opens with each key that opens the
vault now; whoever has it and guesses the passphrase has the vault. The audit log is
not in it: copy audit.pub and audit/ beside it, or keep a mirror (sp apply).`,
		Example: "  sp backup /mnt/stick/vault-2031-04-05.age",
		Args:    exactly("FILE"),
	}
	ask := a.asker(cmd)
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		name := words[0]
		if _, err := os.Lstat(name); err == nil {
			return &adviceError{fmt.Errorf("write %s: it is there already", name), "name a file that is not there yet"}
		}
		proof, err := ask.proof(cmd.Context())
		if err != nil {
			return err
		}
		h, err := a.home()
		if err != nil {
			return err
		}
		c := client.Operator(h)
		defer c.Close()
		w := &arriving{name: name}
		show, end := a.progress("backup")
		err = c.Download(cmd.Context(), client.Command{Path: api.PathBackup, Proof: proof}, func(length int64) (io.Writer, error) {
			return w.begin(length, show)
		})
		end()
		if err != nil {
			w.discard()
			return err
		}
		if err := w.finish(); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "%s: %d bytes, sha256:%s\n", escape(name), w.done, hex.EncodeToString(w.sum.Sum(nil)))
		return nil
	}
	return cmd
}

// arriving is a file that appears under its name only once all of it is on the disk.
type arriving struct {
	name        string
	f           *os.File
	sum         hash.Hash
	done, total int64
	show        func(done, total int64)
}

func (w *arriving) begin(total int64, show func(done, total int64)) (_ io.Writer, err error) {
	w.f, err = os.CreateTemp(filepath.Dir(w.name), "."+filepath.Base(w.name)+".*")
	w.sum, w.total, w.show = sha256.New(), total, show
	return w, err
}

func (w *arriving) Write(b []byte) (int, error) {
	n, err := w.f.Write(b)
	w.sum.Write(b[:n])
	w.done += int64(n)
	if w.show != nil {
		w.show(w.done, w.total)
	}
	return n, err
}

// finish gives the file its name, durably, unless somebody took that meanwhile.
func (w *arriving) finish() error {
	err := w.f.Sync()
	if err = errors.Join(err, w.f.Close()); err == nil {
		if err = os.Link(w.f.Name(), w.name); errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("write %s: it is there already", w.name)
		} else if err != nil { // a file system without hard links, such as a stick's
			err = os.Rename(w.f.Name(), w.name)
		}
	}
	os.Remove(w.f.Name())
	if err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(w.name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (w *arriving) discard() {
	if w.f != nil {
		w.f.Close()
		os.Remove(w.f.Name())
	}
}

func (a *app) restore() *cobra.Command {
	var (
		recovery bool
		own      backupKey
		asJSON   bool
	)
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a backup in the place of the vault",
		Long: `Put a backup in the place of the vault, or where there is none. The proof opens the
vault that is here and the backup; where the backup has another passphrase, or opens
with its recovery identity alone, give that as well:

  --backup-key passphrase|recovery   ask for it at the terminal
  --backup-key-fd N                  read it from a descriptor instead

What was added to the vault since the backup is gone. Every grant ends, what was revoked
stays revoked, and the audit log goes on: put audit.pub and audit/ back first if they
are not here, else a new log begins.`,
		Args: exactly("FILE"),
	}
	ask := a.asker(cmd)
	ask.need = needNothing
	recoveryFlag(cmd, &recovery)
	own.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		if err := own.check(ask); err != nil {
			return err
		}
		f, args, err := a.measure(words[0])
		if err != nil {
			return err
		}
		defer f.Close()
		order := client.Command{Path: api.PathRestore, Args: args}
		if order.Keys, err = own.early(a); err != nil {
			return err
		}
		if order.Proof, err = ask.slot(cmd.Context(), recovery); err != nil {
			return err
		}
		if own.kind != "" && order.Keys == nil {
			if order.Keys, err = own.ask(cmd.Context(), a); err != nil {
				return err
			}
		}
		show, end := a.progress("restore")
		order.File = &moved{f, 0, args.FileLength, show}
		var r api.Restored
		err = a.command(cmd.Context(), order, &r)
		end()
		if err != nil {
			return err
		}
		return a.showRestored(r, asJSON)
	}
	return cmd
}

func (a *app) showRestored(r api.Restored, asJSON bool) error {
	if asJSON {
		if err := a.document(r); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.out, "vault %s is ready, generation %d; every grant has ended\n", escape(r.VaultID), r.Generation)
	}
	if r.NewLog {
		a.say("sp: no log of this vault was here, so a new one has begun\n  next: `sp audit pin` for its key; the log of before stays what it was")
	}
	if r.Passed > 0 {
		a.say("sp: records of the log that were sealed by a key that the backup does not have: %d\n  next: read with a reader's identity what was done since: `sp audit activity --identity FILE`", r.Passed)
	}
	return nil
}

// measure reads a file once, for its length and digest, and leaves it at its beginning.
func (a *app) measure(name string) (*os.File, api.RestoreArgs, error) {
	var args api.RestoreArgs
	f, err := os.Open(name)
	if err != nil {
		return nil, args, &usageError{msg: err.Error(), err: err}
	}
	i, err := f.Stat()
	if err == nil && !i.Mode().IsRegular() {
		err = usage("%s is not a regular file", name)
	}
	sum := sha256.New()
	if err == nil {
		args.FileLength, err = io.Copy(sum, f)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, args, err
	}
	args.FileDigest = sum.Sum(nil)
	return f, args, nil
}

// moved shows how much of a file has left.
type moved struct {
	r           io.Reader
	done, total int64
	show        func(done, total int64)
}

func (m *moved) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	m.done += int64(n)
	if m.show != nil {
		m.show(m.done, m.total)
	}
	return n, err
}

// backupKey is the backup's own key, where the proof does not open it.
type backupKey struct {
	kind string
	fd   int
}

func (k *backupKey) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&k.kind, "backup-key", "", "the backup opens with another key: `passphrase` or recovery")
	cmd.Flags().IntVar(&k.fd, "backup-key-fd", -1, "read that key from descriptor `N`, to its end")
}

func (k *backupKey) check(p *asker) error {
	switch {
	case k.fd >= 0 && k.kind == "":
		k.kind = "passphrase"
	case k.kind != "" && k.kind != "passphrase" && k.kind != "recovery":
		return usage("--backup-key is passphrase or recovery")
	}
	if k.fd >= 0 && k.fd == p.fd {
		return usage("--backup-key-fd and --passphrase-fd are two descriptors")
	}
	return p.early()
}

// early reads the descriptor, if one is named.
func (k *backupKey) early(a *app) ([]api.Proof, error) {
	if k.fd < 0 {
		return nil, nil
	}
	secret, err := a.readFD(k.fd)
	if err != nil {
		return nil, err
	}
	return k.proof(secret)
}

func (k *backupKey) ask(ctx context.Context, a *app) ([]api.Proof, error) {
	what := map[string]string{"passphrase": "the backup's passphrase: ", "recovery": "the backup's recovery identity: "}
	secret, err := a.prompt(ctx, what[k.kind])
	if err != nil {
		return nil, err
	}
	return k.proof(secret)
}

func (k *backupKey) proof(secret []byte) ([]api.Proof, error) {
	p, err := proofOf(secret)
	if err != nil {
		return nil, err
	}
	p.Kind = k.kind
	return []api.Proof{*p}, nil
}
