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
	signed, err := os.ReadFile(filepath.Join(dir, pubFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, ErrNoLog
	}
	if err != nil {
		return nil, nil, err
	}
	p, err := ParsePub(signed)
	if err != nil {
		return nil, nil, &TamperError{Kind: unsigned, Segment: pubFile, Detail: err.Error()}
	}
	w := &Writer{pub: p, o: o.withDefaults(), disk: d, folder: filepath.Join(dir, segmentsFolder)}
	w.lock, err = lockDir(w.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, ErrTruncated
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			w.abort()
		}
	}()
	wk, count, err := lastState(os.DirFS(w.folder), p)
	if err != nil {
		return nil, nil, err
	}
	signer, err := readSigner(w.folder, p)
	if err != nil {
		return nil, nil, err
	}
	defer clear(signer)
	b := beginning{n: count + 1, reason: restarted, by: signer, from: wk.at, drops: wk.drops, open: openList(wk.open)}
	if len(wk.drops) > 0 {
		b.reason = recovered
	}
	if err := w.start(b); err != nil {
		return nil, nil, err
	}
	var open []Record
	for _, i := range b.open {
		open = append(open, i.record())
	}
	return w, open, nil
}

// lastState is the log's state after its last valid COMMIT, found from the last segment that has a whole first batch.
func lastState(fsys fs.FS, p Pub) (*walker, uint64, error) {
	count, err := segments(fsys)
	if err != nil {
		return nil, 0, err
	}
	if count == 0 {
		return nil, 0, ErrTruncated
	}
	wk := newWalker(p)
	for n := count; n > 0; n-- {
		_, err := wk.headerOf(fsys, n)
		var u unfit
		if errors.As(err, &u) {
			continue
		}
		if err == nil {
			err = wk.adoptAt(fsys, n)
		}
		if err == nil {
			err = wk.walk(fsys, n, count)
		}
		return wk, count, err
	}
	return nil, 0, &TamperError{Kind: truncated, Segment: segmentName(1), Seq: 1, Detail: "no segment has a valid header"}
}
