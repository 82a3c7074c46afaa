package auditlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// MirrorState is how far the copy in a second folder is.
type MirrorState struct {
	Dir     string    `json:"dir"`     // empty: there is no mirror
	Seq     uint64    `json:"seq"`     // of the last record that is durable there
	Commits uint64    `json:"commits"` // likewise
	At      time.Time `json:"at"`      // of the last copy that succeeded
	Err     string    `json:"err"`     // why the last one did not; empty: it did
}

// mirror copies the log to a second folder, by one goroutine that ends with the Writer. The zero value has none.
type mirror struct {
	set   sync.Mutex // held while one goroutine gives way to another
	mu    sync.Mutex
	state MirrorState
	stop  chan struct{} // closed to end the goroutine; nil: there is none
	done  chan struct{}
	work  chan struct{} // capacity 1: there is something new
}

// mirrorPatience is how long Close and Mirror wait for a copy in progress: a dead disk must not hold the gateway.
const mirrorPatience = 5 * time.Second

// Mirror copies audit.pub, closed segments and the tail of the live one to dir from now on, about once a second
// (Options.MirrorEvery) while there is something new; "" ends it. dir is made if it is not there; it must be elsewhere than the
// log, and hold nothing or an earlier part of this log. The signer is not copied. Whatever fails there does not stop the
// log: it is tried again, and MirrorState tells of it. The error is for a dir that can't be meant.
func (w *Writer) Mirror(dir string) error {
	if dir != "" {
		if err := w.apartFrom(dir); err != nil {
			return fmt.Errorf("mirror audit log: %w", err)
		}
	}
	m := &w.mirror
	m.set.Lock()
	defer m.set.Unlock()
	m.end()
	w.turn.Lock()
	defer w.turn.Unlock()
	if err := w.usable(); errors.Is(err, ErrClosed) || dir == "" {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = MirrorState{Dir: dir}
	m.stop, m.done, m.work = make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	m.work <- struct{}{}
	c := &copier{w: w, dir: dir, same: map[uint64]int64{}}
	go c.run(m.stop, m.done, m.work)
	return nil
}

// MirrorState is how the mirror is now.
func (w *Writer) MirrorState() MirrorState {
	w.mirror.mu.Lock()
	defer w.mirror.mu.Unlock()
	return w.mirror.state
}

// apartFrom refuses a mirror in the log, or the log in the mirror.
func (w *Writer) apartFrom(dir string) error {
	own, err := filepath.EvalSymlinks(filepath.Dir(w.folder))
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	// Of a folder that is not there yet, what there is of its path counts.
	for up := dir; ; up = filepath.Dir(up) {
		real, err := filepath.EvalSymlinks(up)
		if err == nil {
			dir = real + dir[len(up):]
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || up == filepath.Dir(up) {
			return err
		}
	}
	for _, p := range [][2]string{{own, dir}, {dir, own}} {
		if r, err := filepath.Rel(p[0], p[1]); err == nil && filepath.IsLocal(r) {
			return errors.New("the mirror and the log must lie apart")
		}
	}
	return nil
}

func (m *mirror) wake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop == nil {
		return
	}
	select {
	case m.work <- struct{}{}:
	default:
	}
}

// end stops the goroutine after a last copy.
func (m *mirror) end() {
	m.mu.Lock()
	stop, done := m.stop, m.done
	m.stop = nil
	m.mu.Unlock()
	if stop == nil {
		return
	}
	close(stop)
	t := time.NewTimer(mirrorPatience)
	defer t.Stop()
	select {
	case <-done:
		m.mu.Lock()
		m.state.Dir = ""
		m.mu.Unlock()
	case <-t.C:
	}
}

// copier is the goroutine's own.
type copier struct {
	w    *Writer
	dir  string
	same map[uint64]int64 // bytes of a segment that are known to be equal on both sides
}

func (c *copier) run(stop <-chan struct{}, done chan<- struct{}, work <-chan struct{}) {
	defer close(done)
	// After a failure it is tried again without anything new, ever more seldom.
	const longest = time.Minute
	pause := c.w.o.MirrorEvery
	t := time.NewTimer(longest)
	defer t.Stop()
	for {
		select {
		case <-stop:
			c.pass()
			return
		case <-work:
		case <-t.C:
		}
		if c.pass() {
			pause = c.w.o.MirrorEvery
		} else {
			pause = min(2*pause, longest)
			t.Reset(pause)
		}
		rest := time.NewTimer(pause)
		select {
		case <-stop:
			rest.Stop()
			c.pass()
			return
		case <-rest.C:
		}
	}
}

// pass copies what is durable now, and tells how it went.
func (c *copier) pass() bool {
	last := c.w.last.Load()
	err := c.copy(last.end)
	m := &c.w.mirror
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.Dir != c.dir {
		return true // another copier's by now: this one was too slow to be waited for
	}
	if err != nil {
		m.state.Err = err.Error()
		return false
	}
	m.state.Err, m.state.Seq, m.state.Commits, m.state.At = "", last.seq, last.commits, time.Now().UTC()
	return true
}

func (c *copier) copy(end place) error {
	folder := filepath.Join(c.dir, segmentsFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make mirror: %w", err)
	}
	// Others may write to that folder: a link in it must lead neither out of it nor back to the log.
	root, err := os.OpenRoot(c.dir)
	if err != nil {
		return fmt.Errorf("open mirror: %w", err)
	}
	defer root.Close()
	if err := c.pub(root); err != nil {
		return fmt.Errorf("mirror audit.pub: %w", err)
	}
	for n := uint64(1); n <= end.segment; n++ {
		size := end.off
		if n < end.segment {
			i, err := os.Stat(filepath.Join(c.w.folder, segmentName(n)))
			if err != nil {
				return fmt.Errorf("mirror segment: %w", err)
			}
			size = i.Size()
		}
		if c.same[n] == size {
			continue
		}
		have, err := c.segment(root, n, size)
		if err != nil {
			return fmt.Errorf("mirror %s: %w", segmentName(n), err)
		}
		c.same[n] = have
	}
	return osDisk{}.syncDir(folder)
}

// pub copies audit.pub as it is in force. One of another log is not written over.
func (c *copier) pub(root *os.Root) error {
	p := c.w.pub.Load()
	is, err := readSmall(root, pubFile)
	if err == nil && bytes.Equal(is, p.note) {
		return nil
	}
	if err == nil {
		old, err := ParsePub(is)
		if err != nil || !old.Identity.Equal(p.Identity) {
			return errors.New("another log lies there")
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeFile(osDisk{}, filepath.Join(c.dir, pubFile), p.note)
}

// openPlain opens a regular file of the mirror, and nothing else: no link, pipe or device.
func openPlain(root *os.Root, name string, flag int) (*os.File, error) {
	i, err := root.Lstat(name)
	if err == nil && !i.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return root.OpenFile(name, flag, 0o600)
}

// readSmall reads a file that has at most one frame's size.
func readSmall(root *os.Root, name string) ([]byte, error) {
	f, err := openPlain(root, name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxBody))
}

// segment makes the mirror's file equal up to size, and returns how long it is then: less, where the log's own is being
// closed and loses its preallocated space meanwhile. What is there must be the beginning of it.
func (c *copier) segment(root *os.Root, n uint64, size int64) (int64, error) {
	from, err := os.Open(filepath.Join(c.w.folder, segmentName(n)))
	if err != nil {
		return 0, err
	}
	defer from.Close()
	to, err := openPlain(root, filepath.Join(segmentsFolder, segmentName(n)), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return 0, err
	}
	defer to.Close()
	i, err := to.Stat()
	if err != nil {
		return 0, err
	}
	if own, err := from.Stat(); err != nil || os.SameFile(own, i) {
		return 0, errors.Join(err, errors.New("it is the log's own file"))
	}
	if i.Size() < c.same[n] {
		return 0, errors.New("the copy became shorter")
	}
	off, have := min(c.same[n], size), min(i.Size(), size)
	if err := equal(io.NewSectionReader(from, off, have-off), io.NewSectionReader(to, off, have-off)); err != nil {
		return 0, err
	}
	// A segment that was copied while it was being closed may have had preallocated space behind it.
	if err := equal(zeros{}, io.NewSectionReader(to, have, i.Size()-have)); err != nil {
		return 0, err
	}
	if err := to.Truncate(have); err != nil {
		return 0, err
	}
	more, err := io.Copy(io.NewOffsetWriter(to, have), io.NewSectionReader(from, have, size-have))
	if err != nil {
		return 0, err
	}
	return have + more, datasync(to)
}

// equal reads the copy to its end and as much of the log.
func equal(log, copied io.Reader) error {
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(copied, y)
		if n > 0 {
			if _, err := io.ReadFull(log, x[:n]); err != nil || !bytes.Equal(x[:n], y[:n]) {
				return errors.New("the copy differs from the log")
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
