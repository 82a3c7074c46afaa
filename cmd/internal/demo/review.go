package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sallyport/auditlog"
)

// readPin reads the one key in a folder of pins.
func readPin(dir string) (pub []byte, fingerprint string, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, "", fmt.Errorf("read pin: %w", err)
	}
	if len(files) != 1 {
		return nil, "", fmt.Errorf("read pin: %d files in %s, expected one", len(files), dir)
	}
	if pub, err = os.ReadFile(filepath.Join(dir, files[0].Name())); err != nil {
		return nil, "", fmt.Errorf("read pin: %w", err)
	}
	fingerprint, err = auditlog.Fingerprint(pub)
	return pub, fingerprint, err
}

// copyLog copies segments: what a reviewer is given. The signer beside them is the gateway's own and stays.
func copyLog(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("copy log: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(from, "*.seg"))
	if err == nil && len(files) == 0 {
		err = errors.New("there is no segment")
	}
	for _, f := range files {
		var b []byte
		if b, err = os.ReadFile(f); err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(f)), b, 0o600)
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("copy log: %w", err)
	}
	return nil
}

func (d *demo) verify(context.Context) (err error) {
	r := &d.seen.review
	if r.intact, err = auditlog.Verify(os.DirFS(d.review()), d.op.pin, auditlog.VerifyOptions{AllSignatures: true}); err != nil {
		return err
	}
	d.out.say("A copy of the folder and the pinned public key: no gateway, no vault, no secret.")
	d.out.say("%s: %d records in %d signed commits, %d bytes", r.intact.Verdict, r.intact.Records, r.intact.Commits, r.intact.Bytes)
	return nil
}

// tamper changes one bit in the middle of a second copy.
func (d *demo) tamper(context.Context) (err error) {
	changed := filepath.Join(d.dir, "tampered")
	if err := copyLog(d.review(), changed); err != nil {
		return err
	}
	r := &d.seen.review
	if r.segment, r.offset, err = flip(changed); err != nil {
		return err
	}
	return d.verifyChanged(changed)
}

// verifyChanged verifies a changed copy, and counts how much of it differs from the true one.
func (d *demo) verifyChanged(changed string) (err error) {
	r := &d.seen.review
	if r.changed, err = differences(d.review(), changed); err != nil {
		return err
	}
	if r.broken, err = auditlog.Verify(os.DirFS(changed), d.op.pin, auditlog.VerifyOptions{}); err != nil {
		return err
	}
	d.out.say("Changed: %s, byte %d.", r.segment, r.offset)
	d.out.say("%s, %s: %s, from byte %d on, record %d: %s", r.broken.Verdict, r.broken.Kind, r.broken.Segment, r.broken.Offset, r.broken.Seq, r.broken.Detail)
	return nil
}

// flip changes the lowest bit of the middle byte of what the first segment holds; zeros after that are room kept for more.
func flip(segments string) (segment string, offset int64, err error) {
	files, err := filepath.Glob(filepath.Join(segments, "*.seg"))
	if err != nil || len(files) == 0 {
		return "", 0, errors.Join(errors.New("change log: there is no segment"), err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil || len(b) == 0 {
		return "", 0, errors.Join(errors.New("change log: the segment is empty"), err)
	}
	at := len(bytes.TrimRight(b, "\x00")) / 2
	b[at] ^= 1
	if err := os.WriteFile(files[0], b, 0o600); err != nil {
		return "", 0, fmt.Errorf("change log: %w", err)
	}
	return filepath.Base(files[0]), int64(at), nil
}

// differences counts the bytes by which the segments of two folders differ.
func differences(a, b string) (n int, err error) {
	files, err := filepath.Glob(filepath.Join(a, "*.seg"))
	for _, f := range files {
		x, errX := os.ReadFile(f)
		y, errY := os.ReadFile(filepath.Join(b, filepath.Base(f)))
		if err = errors.Join(err, errX, errY); err != nil {
			return 0, fmt.Errorf("compare logs: %w", err)
		}
		if len(x) != len(y) {
			return 0, errors.New("compare logs: lengths differ")
		}
		for i := range x {
			if x[i] != y[i] {
				n++
			}
		}
	}
	return n, err
}

// review is the folder of the reviewer's copy.
func (d *demo) review() string { return filepath.Join(d.dir, "review", "audit") }
