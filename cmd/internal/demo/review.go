package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
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

// records is the log in a folder, decrypted with the reader's identity and verified on the way.
func (d *demo) records(segments string) (items []event.Item, bodies [][]byte, err error) {
	for r, err := range auditlog.Read(os.DirFS(segments), d.op.pin, d.op.created.ReaderIdentity) {
		if err != nil {
			return nil, nil, err
		}
		e, err := event.Decode(r.Body)
		if err != nil {
			return nil, nil, fmt.Errorf("record %d: %w", r.Seq, err)
		}
		items, bodies = append(items, event.Item{Seq: r.Seq, Time: r.Time, Event: e}), append(bodies, r.Body)
	}
	return items, bodies, nil
}

// readLog lets the agent go, takes a copy of the log for the reviewer, and reads both logs out of it.
func (d *demo) readLog(ctx context.Context) error {
	if err := d.agent.close(); err != nil {
		return err
	}
	if err := d.recordedEnd(ctx); err != nil {
		return err
	}
	if err := copyLog(d.stage.segments(), d.review()); err != nil {
		return err
	}
	items, _, err := d.records(d.review())
	if err != nil {
		return err
	}
	d.seen.log = readEvents(items, d.seen.run.id)
	d.seen.log.sessions = d.print("Sessions: who ran, under which authority", event.Sessions(slices.Values(items)))
	d.seen.log.activity = d.print("Activity: the single calls, in order", event.Activity(slices.Values(items)))
	return nil
}

func (d *demo) print(head string, lines iter.Seq[event.Line]) (n int) {
	d.out.say("%s", head)
	for l := range lines {
		d.out.quote("", l.Text())
		n++
	}
	return n
}

// recordedEnd waits until the log tells of the shim's end: then nothing more is on its way into it.
func (d *demo) recordedEnd(ctx context.Context) error {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		items, _, err := d.records(d.stage.segments())
		if err != nil {
			return err
		}
		for _, it := range items {
			if e, ok := it.Event.(event.EpochEnded); ok && e.Run == d.seen.run.id {
				return nil
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the agent's end in the log: %w", ctx.Err())
		}
	}
}

// readEvents is what the log says of one run.
func readEvents(items []event.Item, run string) (l logSeen) {
	open := map[string]bool{}
	for _, it := range items {
		switch e := it.Event.(type) {
		case event.RunRevoked:
			if e.Run == run {
				l.revokedAt = it.Seq
			}
		case event.AuthorizationDenied:
			if e.Run == run {
				l.deniedAt, l.denied = it.Seq, e.Reason
			}
		case event.ApprovalGranted:
			if e.Run == run {
				l.approvals++
			}
		case event.ToolCalled:
			if e.Run == run {
				l.intents++
				open[e.Action] = true
			}
		case event.ToolFinished:
			if e.Outcome == "confirmed" && open[e.Action] {
				l.confirmed++
			}
			delete(open, e.Action)
		}
	}
	l.open = len(open)
	return l
}

// search looks for both credentials in everything that the story left behind, and then for planted copies of them.
func (d *demo) search(context.Context) error {
	type place struct {
		name string
		text []byte
		may  bool // be empty
	}
	_, bodies, err := d.records(d.review())
	if err != nil {
		return err
	}
	places := []place{
		{"what the agent answered", d.agent.stdout.Bytes(), false}, {"what the shim sent it", d.agent.wire.Bytes(), false},
		{"their diagnostics", []byte(d.agent.stderr.String()), true}, {"the gateway's diagnostics", []byte(d.stage.said.String()), true},
		{"this screen", d.out.kept.Bytes(), false}, {"the decrypted log", bytes.Join(bodies, []byte("\n")), false},
	}
	files, n := 0, 0
	err = filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || e.Name() == AgentCommand {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(d.dir, path)
		places = append(places, place{rel, b, e.Name() != "vault.db"})
		files++
		return err
	})
	if err != nil {
		return err
	}
	seen := searchSeen{}
	for _, p := range places {
		n += len(p.text)
		if len(p.text) == 0 && !p.may {
			seen.empty = append(seen.empty, p.name)
		}
		for _, s := range d.secrets {
			for _, f := range s.in(p.text) {
				seen.found = append(seen.found, fmt.Sprintf("%s is in %s, as %s", s.name, p.name, f))
			}
		}
	}
	seen.bytes = n
	for _, s := range d.secrets {
		for _, f := range s.plants() {
			seen.planted++
			if len(s.in(slices.Concat(d.agent.wire.Bytes(), f.text))) == 0 {
				seen.missed = append(seen.missed, s.name+" as "+f.name)
			}
		}
	}
	d.seen.search = seen
	d.out.say("Searched: all that the agent received, printed and was sent by its shim; this screen; the decrypted log;")
	d.out.say("every file of the vault, database and log. %d bytes, %d files; raw, hex, base64, percent and JSON forms.", n, files)
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

// flip changes the lowest bit of the middle byte of the first segment.
func flip(segments string) (segment string, offset int64, err error) {
	files, err := filepath.Glob(filepath.Join(segments, "*.seg"))
	if err != nil || len(files) == 0 {
		return "", 0, errors.Join(errors.New("change log: there is no segment"), err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil || len(b) == 0 {
		return "", 0, errors.Join(errors.New("change log: the segment is empty"), err)
	}
	at := len(b) / 2
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
