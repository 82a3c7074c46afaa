package auditlog

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// testKillIdentity is the same in both processes.
func testKillIdentity() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
}

const (
	killEnv     = "AUDITLOG_TEST_KILL_DIR"
	killWriters = 32
)

// TestMain lets the test binary be the writer that gets killed, or the one whose memory or pace is measured.
func TestMain(m *testing.M) {
	for env, do := range map[string]func(dir string) error{killEnv: writeUntilKilled, memoryEnv: verifyAndMeasure, appendEnv: appendAndMeasure} {
		dir := os.Getenv(env)
		if dir == "" {
			continue
		}
		if err := do(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// writeUntilKilled appends from many sides, and tells what was acknowledged: 24 bytes in one write, sequence and
// subject. It ends by itself only if nobody kills it for a while.
func writeUntilKilled(dir string) error {
	w, open, err := Open(dir, Options{MaxSegment: 48 << 10, Countersign: 5 * time.Millisecond})
	if err != nil {
		return err
	}
	if err := w.Identify(testKillIdentity()); err != nil {
		return err
	}
	for _, r := range open {
		if _, err := w.Append(context.Background(), Entry{Kind: Result, Subject: r.Subject, Body: r.Subject[:]}); err != nil {
			return err
		}
	}
	if _, err := os.Stdout.Write(make([]byte, 24)); err != nil { // ready
		return err
	}
	failed := make(chan error, killWriters)
	for n := range killWriters {
		go func() {
			for i := uint32(1); ; i++ {
				var s [16]byte
				copy(s[:], "kill")
				binary.BigEndian.PutUint32(s[4:], uint32(os.Getpid()))
				binary.BigEndian.PutUint32(s[8:], uint32(n+1))
				binary.BigEndian.PutUint32(s[12:], i)
				for _, k := range []Kind{Intent, Result} {
					seq, err := w.Append(context.Background(), Entry{Kind: k, Subject: s, Body: append(s[:], byte(k)), Own: s[:]})
					if err == nil {
						_, err = os.Stdout.Write(append(binary.BigEndian.AppendUint64(nil, seq), s[:]...))
					}
					if err != nil {
						failed <- err
						return
					}
				}
			}
		}()
	}
	select {
	case err := <-failed:
		return err
	case <-time.After(time.Minute):
		return nil
	}
}

// TestKill is A22's part of the log: a writer with 32 callers is killed again and again. Every acknowledged record is
// there, in its place, and whatever else is there was asked for; no kill reads as tampering.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	k := testKeys()
	w, err := Create(dir, testKillIdentity(), testOrigin, []string{k.recipient}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	acked := map[uint64][16]byte{}
	torn := 0
	for round := range long(200) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killEnv+"="+dir)
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Killed after so many acknowledgements, a number without a pattern; what is in the pipe by then counts too.
		left := 1 + (round*2654435761)%1500
		in := bufio.NewReader(out)
		for {
			var b [24]byte
			if _, err := io.ReadFull(in, b[:]); err != nil {
				break
			}
			if left--; left == 0 {
				cmd.Process.Signal(syscall.SIGKILL)
			}
			if seq := binary.BigEndian.Uint64(b[:]); seq > 0 {
				acked[seq] = [16]byte(b[8:])
			}
		}
		if err := cmd.Wait(); err == nil || complaint.Len() > 0 {
			t.Fatalf("round %d: the writer ended by itself: %v %s", round, err, complaint.String())
		}
		r := verifyDir(t, dir, VerifyOptions{AllSignatures: round%10 == 0})
		switch r.Verdict {
		case Torn:
			torn++
		case Intact:
		default:
			t.Fatalf("round %d: %+v", round, r)
		}
	}
	fsys, pub := os.DirFS(filepath.Join(dir, segmentsFolder)), readPub(t, dir)
	w, _, err = Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	wantVerdict(t, verify(t, fsys, pub, VerifyOptions{AllSignatures: true}), Intact)
	for r, err := range Read(fsys, pub, k.reader) {
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := acked[r.Seq]; ok {
			if s != r.Subject {
				t.Fatalf("record %d is of another than was acknowledged", r.Seq)
			}
			delete(acked, r.Seq)
		}
		if string(r.Subject[:4]) != "kill" || !bytes.HasPrefix(r.Body, r.Subject[:]) {
			t.Fatalf("record %d was never asked for: %v", r.Seq, r)
		}
	}
	if len(acked) > 0 {
		t.Fatalf("%d acknowledged records are not there", len(acked))
	}
	t.Logf("%d torn tails", torn)
}
