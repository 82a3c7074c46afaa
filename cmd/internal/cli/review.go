package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/spf13/cobra"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
)

// nextIdentity is what helps whoever brought a file that opens nothing.
const nextIdentity = "give the file that holds the reader identity, or the recovery identity, which `sp init` printed; a log whose readers were changed wants the old and the new one in one file"

// review is what a reviewer brings to read a log: the folder, a key for it, an age identity.
type review struct {
	a             *app
	pub, identity string
}

// review adds the flags --identity and --pub to cmd.
func (a *app) review(cmd *cobra.Command) *review {
	r := &review{a: a}
	identityFlag(cmd, &r.identity)
	cmd.Flags().StringVar(&r.pub, "pub", "", "verify against the audit.pub in `FILE`, which does not come with DIR")
	return r
}

func identityFlag(cmd *cobra.Command, identity *string) {
	cmd.Flags().StringVar(identity, "identity", "", "read with the age identity in `FILE`; - is stdin")
}

// readable is a log with all that reading it takes.
type readable struct {
	folder
	key    trust
	reader reader
}

// open opens the log in dir. A key that nobody outside vouches for is told.
func (r *review) open(dir string) (readable, error) {
	if r.identity == "" {
		return readable{}, usage("--identity is missing")
	}
	log, err := r.a.openFolder(dir)
	if err != nil {
		return readable{}, err
	}
	key, err := r.a.trust(log, r.pub, "")
	if err != nil {
		return readable{}, err
	}
	if key.fault != nil {
		return readable{}, fmt.Errorf("read log: %s: %s", key.fault.Segment, key.fault.Detail)
	}
	who, err := r.a.reader(r.identity)
	if err != nil {
		return readable{}, err
	}
	if !key.pinned {
		r.a.say("sp: the key is %s: nothing from outside vouches for this log", escape(key.by))
	}
	return readable{folder: log, key: key, reader: who}, nil
}

// reader is an age identity and the name of the file it came from.
type reader struct{ secret, file string }

// reader reads the file that holds an age identity.
func (a *app) reader(path string) (reader, error) {
	b, err := a.readInput(path)
	if err != nil {
		return reader{}, &adviceError{err, nextIdentity}
	}
	if path == "-" {
		path = "stdin"
	}
	return reader{string(b), path}, nil
}

// records are the log's, decrypted and verified on the way. A fault comes last; what
// is the identity's fault names its file, never what that holds.
func (b readable) records(segments fs.FS) iter.Seq2[auditlog.Record, error] {
	return func(yield func(auditlog.Record, error) bool) {
		var last uint64
		for rec, err := range auditlog.Read(segments, b.key.pub, b.reader.secret) {
			if err != nil {
				yield(rec, b.fault(err, last))
				return
			}
			last = rec.Seq
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// unreadable: the identity opens nothing, or not all, or sp does not know what it reads.
type unreadable struct{ error }

// fault says which file is at fault, where the log is not.
func (b readable) fault(err error, last uint64) error {
	var (
		tampered *auditlog.TamperError
		path     *fs.PathError
	)
	file := b.reader.file
	switch {
	case errors.As(err, &tampered), errors.As(err, &path), errors.Is(err, auditlog.ErrTruncated):
		return err
	case !b.identified():
		err = fmt.Errorf("%s holds no whole age identity", file)
	case last == 0:
		err = fmt.Errorf("%s: this identity does not open this log from its beginning", file)
	default:
		err = fmt.Errorf("%s: this identity opens the log to record %d and no further: its readers were changed there", file, last)
	}
	return &adviceError{unreadable{err}, nextIdentity}
}

// identified says that the file holds an identity at all, whatever it opens.
func (b readable) identified() bool {
	for _, err := range auditlog.Read(noSegments{}, b.key.pub, b.reader.secret) {
		return errors.Is(err, auditlog.ErrTruncated) // it was taken, and then there was nothing to open
	}
	return false
}

// decode turns records into events until one fails; failed tells afterwards.
func decode(in iter.Seq2[auditlog.Record, error]) (items iter.Seq[event.Item], failed func() error) {
	var fault error
	items = func(yield func(event.Item) bool) {
		for r, err := range in {
			if err != nil {
				fault = err
				return
			}
			e, err := event.Decode(r.Body)
			if err != nil {
				fault = &adviceError{unreadable{fmt.Errorf("read record %d: %w", r.Seq, err)}, "a newer sp may know this event"}
				return
			}
			if !yield(event.Item{Seq: r.Seq, Time: r.Time, Event: e}) {
				return
			}
		}
	}
	return items, func() error { return fault }
}
