//go:build linux || darwin

package peer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDigests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var d digests
	const abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	sum, s, err := d.of(f)
	if err != nil || sum != abc {
		t.Fatalf("%s, %v", sum, err)
	}
	if d.m[s].sum != "" {
		t.Error("remembered a file that changed a moment ago")
	}
	d.m[s].sum = "remembered"
	if sum, _, _ := d.of(f); sum != "remembered" {
		t.Errorf("hashed again: %s", sum)
	}
	if err := os.Chtimes(path, time.Now(), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if sum, _, err := d.of(f); err != nil || sum != abc {
		t.Errorf("after a change: %s, %v", sum, err)
	}
	if _, _, err := d.of(mustOpen(t, t.TempDir())); err == nil || !strings.Contains(err.Error(), "regular") {
		t.Errorf("a folder: %v", err)
	}
	for i := range 2 * digestsMax {
		d.entry(stamp{ino: uint64(i)})
	}
	if len(d.m) > digestsMax {
		t.Errorf("%d remembered, at most %d", len(d.m), digestsMax)
	}
}

func mustOpen(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// A link made to a file while it is hashed changes its ctime and not its bytes: it is read again.
func TestDigestWhileLinked(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "program")
	if err := os.WriteFile(name, bytes.Repeat([]byte("x"), 32<<20), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	over := make(chan error, 1)
	go func() { // twice while it is read once
		var err error
		for i := range 2 {
			time.Sleep(3 * time.Millisecond)
			err = errors.Join(err, os.Link(name, filepath.Join(dir, fmt.Sprint(i))))
		}
		over <- err
	}()
	var d digests
	if _, _, err := d.of(f); err != nil {
		t.Error(err)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
}
