package sshexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/pkg/sftp"
)

// A file in the account's reach is written beside its place and moved there whole, or read from its place. On the way
// there and at its end no symbolic link is followed: what the rule names is what is touched.

// Put writes the file of t, which m must cover, reading exactly t.Size bytes of from. Until the last step, a rename, the
// path on the host is unchanged; what a cut left beside it is taken up again only where its bytes are those of from.
// Confirmed says that the file is there with its mode, synced where the host can; SentUnconfirmed that the rename may
// have happened. progress is called with the bytes done so far; nil: nobody asks. The error is one of reading from.
func (c *Conn) Put(ctx context.Context, t Transfer, m Match, from io.ReaderAt, progress func(done int64)) (Result, error) {
	if r, bad := c.transferable(t, m, Upload); bad {
		return r, nil
	}
	x, r, ok := c.sftp(ctx)
	if !ok {
		return r, nil
	}
	defer x.close()
	if r, ok := x.place(t); !ok {
		return r, nil
	}
	if _, err := x.Lstat(t.in.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return x.failed(err, "look at the path"), nil
	}
	src := &counted{r: io.NewSectionReader(from, 0, t.in.Size), progress: progress}
	if err := x.fill(t, from, src); err != nil {
		if src.err != nil {
			return Result{Outcome: FailedRemote, Sent: true, Reason: "upload_incomplete", Detail: unchanged}, fmt.Errorf("read upload: %w", src.err)
		}
		return x.failed(err, "write the file"), nil
	}
	if ctx.Err() != nil {
		return x.failed(ctx.Err(), "move the file"), nil
	}
	if err := x.PosixRename(t.part(), t.in.Path); err != nil {
		var status *sftp.StatusError
		if errors.As(err, &status) {
			return x.failed(err, "move the file"), nil
		}
		return unconfirmed(ctx, "connection_lost"), nil
	}
	return Result{Outcome: Confirmed, Sent: true, Ended: true}, nil
}

// Get reads the file of t, which m must cover, into w. Confirmed says that all of it was read; progress is that of
// Put. The error is one of w.
func (c *Conn) Get(ctx context.Context, t Transfer, m Match, w io.Writer, progress func(done int64)) (Result, error) {
	if r, bad := c.transferable(t, m, Download); bad {
		return r, nil
	}
	x, r, ok := c.sftp(ctx)
	if !ok {
		return r, nil
	}
	defer x.close()
	if r, ok := x.place(t); !ok {
		return r, nil
	}
	f, err := x.Open(t.in.Path)
	if err != nil {
		return x.failed(err, "open the file"), nil
	}
	dst := &countedWriter{w: w, progress: progress}
	_, err = f.WriteTo(dst)
	_ = f.Close()
	switch {
	case dst.err != nil && dst.err != errTooLarge:
		return Result{Outcome: FailedRemote, Sent: true, Reason: "download_incomplete", Detail: "the file was not read to its end"}, fmt.Errorf("keep download: %w", dst.err)
	case dst.err != nil:
		return Result{Outcome: FailedRemote, Sent: true, Truncated: true, Reason: "download_incomplete", Detail: fmt.Sprintf("the file is over %d bytes", MaxTransfer)}, nil
	case err != nil:
		return x.failed(err, "read the file"), nil
	}
	return Result{Outcome: Confirmed, Sent: true, Ended: true}, nil
}

const unchanged = "the file on the host is unchanged"

// transferable refuses what the match was not made for.
func (c *Conn) transferable(t Transfer, m Match, way Way) (Result, bool) {
	switch {
	case c.l == nil:
		return givenBack(), true
	case t.in.Way != way || m.rule == "" || m.line != string(t.Canonical()):
		return Result{Outcome: Denied, Reason: "rule_mismatch", Detail: "the rule was matched for another transfer"}, true
	}
	return Result{}, false
}

// transfer is one SFTP session.
type transfer struct {
	*sftp.Client
	ctx  context.Context
	s    *session
	l    *link
	stop func() bool
}

// sftp asks for the subsystem (draft-ietf-secsh-filexfer-02) on this place's session.
func (c *Conn) sftp(ctx context.Context) (*transfer, Result, bool) {
	s, r, ok := c.begin(ctx, "subsystem", "sftp")
	if !ok {
		return nil, r, false
	}
	l := c.l
	x := &transfer{ctx: ctx, s: s, l: l, stop: context.AfterFunc(ctx, func() { s.end(l) })}
	client, err := sftp.NewClientPipe(s.ch, s.ch, sftp.UseConcurrentReads(true), sftp.UseConcurrentWrites(true))
	if err != nil {
		s.end(l)
		x.stop()
		return nil, x.failed(err, "speak SFTP"), false
	}
	x.Client = client
	return x, Result{}, true
}

func (x *transfer) close() {
	x.stop()
	x.s.end(x.l)
	_ = x.Client.Close()
}

// place holds the path to the rule: its folder is no symbolic link anywhere on the way, and neither is the file.
func (x *transfer) place(t Transfer) (Result, bool) {
	dir := path.Dir(t.in.Path)
	real, err := x.RealPath(dir)
	if err != nil {
		return x.failed(err, "find the folder"), false
	}
	if real != dir {
		return Result{Outcome: Denied, Reason: "rule_mismatch", Detail: "the folder is reached through a symbolic link; name the real one"}, false
	}
	info, err := x.Lstat(dir)
	if err != nil || !info.IsDir() {
		return x.failed(err, "find the folder"), false
	}
	switch info, err = x.Lstat(t.in.Path); {
	case t.in.Way == Upload && errors.Is(err, fs.ErrNotExist):
		return Result{}, true
	case err != nil:
		return x.failed(err, "find the file"), false
	case !info.Mode().IsRegular():
		return Result{Outcome: Denied, Reason: "rule_mismatch", Detail: "what lies there is no plain file"}, false
	}
	return Result{}, true
}

// fill makes the part file hold all of src.
func (x *transfer) fill(t Transfer, from io.ReaderAt, src *counted) error {
	part := t.part()
	at := x.resumes(t, from)
	flags := os.O_WRONLY | os.O_CREATE
	if at == 0 {
		_ = x.Remove(part) // not ours, or not these bytes
		flags |= os.O_EXCL
	}
	f, err := x.OpenFile(part, flags)
	if err != nil {
		return err
	}
	defer f.Close()
	if at == 0 {
		if err := f.Chmod(0o600); err != nil {
			return err
		}
	}
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return err
	}
	if err := src.skip(at); err != nil {
		return err
	}
	if _, err := f.ReadFromWithConcurrency(src, 64); err != nil {
		return err
	}
	if info, err := f.Stat(); err != nil || info.Size() != t.in.Size {
		return errors.Join(err, errShort)
	}
	if err := f.Chmod(fs.FileMode(t.in.Mode)); err != nil {
		return err
	}
	if _, can := x.HasExtension("fsync@openssh.com"); can {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return f.Close()
}

var (
	errShort    = errors.New("the part file has another size")
	errTooLarge = errors.New("file too large")
)

// resumes is how many bytes of an earlier try are there: zero unless all of them are those of from.
func (x *transfer) resumes(t Transfer, from io.ReaderAt) int64 {
	info, err := x.Lstat(t.part())
	if err != nil || !info.Mode().IsRegular() || info.Size() > t.in.Size || info.Size() == 0 {
		return 0
	}
	f, err := x.Open(t.part())
	if err != nil {
		return 0
	}
	defer f.Close()
	same := &compared{with: io.NewSectionReader(from, 0, info.Size())}
	if n, err := f.WriteTo(same); err != nil || n != info.Size() {
		return 0
	}
	return info.Size()
}

// failed is a step that the host refused or that was cut: before the rename, so nothing has happened to the path.
func (x *transfer) failed(err error, what string) Result {
	r := Result{Outcome: FailedRemote, Sent: true, Reason: "transfer_refused", Detail: "the host did not let us " + what + "; " + unchanged}
	var status *sftp.StatusError
	switch {
	case x.ctx.Err() != nil:
		r.Reason, r.Detail = reasonOf(x.ctx), "ended before the last step; "+unchanged
	case errors.Is(err, fs.ErrNotExist):
		r.Detail = "no such file or folder on the host"
	case errors.Is(err, fs.ErrPermission):
		r.Detail = "the account may not " + what + "; " + unchanged
	case err != nil && !errors.As(err, &status):
		r.Reason, r.Detail = "connection_lost", "the connection ended before the last step; "+unchanged
	}
	return r
}

// counted tells how far a reader has come, and keeps its error apart from the host's.
type counted struct {
	r        io.Reader
	done     int64
	progress func(done int64)
	err      error
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.done += int64(n)
	if n > 0 && c.progress != nil {
		c.progress(c.done)
	}
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

func (c *counted) skip(n int64) error {
	_, err := io.CopyN(io.Discard, c, n)
	return err
}

// countedWriter is counted for the other way, and ends at MaxTransfer.
type countedWriter struct {
	w        io.Writer
	done     int64
	progress func(done int64)
	err      error
}

func (c *countedWriter) Write(b []byte) (int, error) {
	if c.done+int64(len(b)) > MaxTransfer {
		c.err = errTooLarge
		return 0, c.err
	}
	n, err := c.w.Write(b)
	c.done += int64(n)
	if c.err = err; c.progress != nil {
		c.progress(c.done)
	}
	return n, err
}

// compared takes bytes as long as they are those of with.
type compared struct{ with io.Reader }

func (c *compared) Write(b []byte) (int, error) {
	want := make([]byte, len(b))
	if _, err := io.ReadFull(c.with, want); err != nil || !bytes.Equal(want, b) {
		return 0, errShort
	}
	return len(b), nil
}
