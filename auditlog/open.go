package auditlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Open continues the log in dir in a new segment. It takes the lock, checks audit.pub, and scans the last segment:
// a torn tail is explained in the new HEADER, bytes and hash, and stays where it is; anything else that is invalid is
// a *TamperError and nothing is written. open are the intents that have no Result, by sequence; Body is nil.
// ErrNoLog: no audit.pub. ErrLocked: another writer. ErrTruncated: no segment beside audit.pub. Whole earlier segments
// are Verify's to check, and how far the log reached before is for the caller to compare with Head.
func Open(dir string, o Options) (w *Writer, open []Record, err error) {
	w, open, err = openLog(dir, o, osDisk{})
	if err != nil {
		return nil, nil, fmt.Errorf("open audit log: %w", err)
	}
	return w, open, nil
}

func openLog(dir string, o Options, d disk) (_ *Writer, _ []Record, err error) {
	w := &Writer{o: o.withDefaults(), disk: d, folder: filepath.Join(dir, segmentsFolder)}
	var f found
	f.pub, f.err = w.readPub(dir)
	if f.err == nil {
		w.lock, f.err = lockDir(w.folder)
	}
	if f.err == nil {
		defer func() {
			if err != nil {
				w.abort()
			}
		}()
		f.look(os.DirFS(w.folder))
	}
	b, err := f.decide()
	if err != nil {
		return nil, nil, err
	}
	if b.by, err = readSigner(w.folder, f.pub.Pub); err != nil {
		return nil, nil, err
	}
	defer clear(b.by)
	w.pub.Store(f.pub)
	if err := w.start(b); err != nil {
		return nil, nil, err
	}
	var open []Record
	for _, i := range b.open {
		open = append(open, i.record())
	}
	return w, open, nil
}

func (w *Writer) readPub(dir string) (*published, error) {
	signed, err := os.ReadFile(filepath.Join(dir, pubFile))
	if err != nil {
		return nil, err
	}
	p, err := ParsePub(signed)
	if err != nil {
		return nil, &TamperError{Kind: unsigned, Segment: pubFile, Detail: err.Error()}
	}
	return &published{p, signed}, nil
}

// found is what lies in a log's folder.
type found struct {
	pub   *published // nil: none that can be read
	err   error      // what ended the look
	count uint64     // segments
	begun uint64     // the last one with a whole first batch; 0: none
	state state      // after the last valid COMMIT
}

// look finds the log's state, from the last segment that has a whole first batch.
func (f *found) look(fsys fs.FS) {
	if f.count, f.err = segments(fsys); f.err != nil {
		return
	}
	wk := newWalker(f.pub.Pub)
	for n := f.count; n > 0; n-- {
		_, err := wk.headerOf(fsys, n)
		var u unfit
		if errors.As(err, &u) {
			continue
		}
		f.begun = n
		if err == nil {
			err = wk.adoptAt(fsys, n)
		}
		if err == nil {
			err = wk.walk(fsys, n, f.count)
		}
		f.state, f.err = wk.state, err
		return
	}
}

// decide is what the writer does about it: every ordering that a crash, a restore or somebody's hand can leave.
func (f *found) decide() (beginning, error) {
	var fault *TamperError
	switch {
	case errors.Is(f.err, fs.ErrNotExist) && f.pub == nil:
		// No audit.pub: it is written last, so whatever else lies here was never finished.
		return beginning{}, ErrNoLog
	case errors.Is(f.err, fs.ErrNotExist) && !errors.As(f.err, &fault):
		// audit.pub, and no folder of segments.
		return beginning{}, ErrTruncated
	case f.err != nil:
		// audit.pub edited, another writer, a fault that no crash leaves, or a disk that does not read.
		return beginning{}, f.err
	case f.count == 0:
		return beginning{}, ErrTruncated
	case f.begun == 0:
		// audit.pub is written after the first batch is durable.
		return beginning{}, &TamperError{Kind: truncated, Segment: segmentName(1), Seq: 1, Detail: "no segment has a valid header"}
	case f.pub.Serial < f.state.readers.serial:
		// An older audit.pub was put back: its readers are not those that the log is sealed to now.
		return beginning{}, &TamperError{Kind: tampered, Segment: pubFile, Detail: fmt.Sprintf("it has serial %d, and the log is at serial %d", f.pub.Serial, f.state.readers.serial)}
	}
	// The last COMMIT is where the log ends; audit.pub is that segment's, or newer, when a change of recipients was cut short.
	b := beginning{n: f.count + 1, reason: restarted, from: f.state.at, serial: f.state.readers.serial, drops: f.state.drops, open: openList(f.state.open)}
	if len(b.drops) > 0 {
		// A tail without its COMMIT, segments that were never begun, or both.
		b.reason = recovered
	}
	return b, nil
}
