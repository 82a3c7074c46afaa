package sshexec_test

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"sallyport/sshexec"
	"sallyport/sshexec/sshtest"

	"golang.org/x/crypto/ssh"
)

// inHeap reports whether the live heap holds the bytes; masked, the search does not find itself.
func inHeap(t *testing.T, masked []byte) bool {
	t.Helper()
	runtime.GC()
	runtime.GC()
	path := filepath.Join(t.TempDir(), "heap")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	debug.WriteHeapDump(f.Fd())
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	dump, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := mask(masked)
	defer clear(want)
	return bytes.Contains(dump, want)
}

func mask(b []byte) []byte {
	m := slices.Clone(b)
	for i := range m {
		m[i] ^= 0xa5
	}
	return m
}

// maskedSeed is the raw seed of an OpenSSH key file, masked.
func maskedSeed(t *testing.T, file []byte) []byte {
	t.Helper()
	masked := make(chan []byte)
	go func() {
		defer close(masked)
		if raw, err := ssh.ParseRawPrivateKey(file); err == nil {
			masked <- mask(raw.(*ed25519.PrivateKey).Seed())
		}
	}()
	seed := <-masked
	if len(seed) != ed25519.SeedSize {
		t.Fatal("no seed")
	}
	return seed
}

// While a pooled connection lives, the key that opened it is nowhere in memory but in the caller's own (PEM) bytes. The
// collector scans what it interrupts conservatively, so chance may hold one key: what holds it on purpose holds each.
func TestKeyIsLetGo(t *testing.T) {
	for range 3 {
		if keyIsLetGo(t) {
			return
		}
	}
	t.Error("waited in vain for a key to leave the memory, with three keys")
}

func keyIsLetGo(t *testing.T) bool {
	b := newBed(t, sshtest.Options{}, sshexec.PoolOptions{})
	seed := maskedSeed(t, b.auth.Secret)
	k, err := sshexec.ParseKey(b.auth.Secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !inHeap(t, seed) {
		t.Fatal("the search does not find a key that is held: it shows nothing")
	}
	runtime.KeepAlive(k)
	k = sshexec.Key{}
	var c *sshexec.Conn
	dialled := make(chan error)
	go func() { // on a stack of its own, whose dead slots go with it
		var err error
		c, err = b.pool.Dial(t.Context(), b.target, b.auth)
		dialled <- err
	}()
	if err := <-dialled; err != nil {
		t.Fatal(err)
	}
	defer b.pool.Put(c)
	gone := false
	for end := time.Now().Add(20 * time.Second); !gone && time.Now().Before(end); {
		gone = !inHeap(t, seed)
	}
	m, cmd := b.match(t, "true")
	if r := c.Run(t.Context(), cmd, m, nil, nil); r.Outcome != sshexec.Confirmed {
		t.Errorf("the connection did not live: %+v", r)
	}
	_ = k
	return gone
}
