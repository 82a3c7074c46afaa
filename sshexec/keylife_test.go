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

	"sallyport/sshexec"
	"sallyport/sshexec/sshtest"

	"golang.org/x/crypto/ssh"
)

// inHeap reports whether the live heap holds b; mask keeps the search from finding itself.
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
	return bytes.Contains(dump, mask(masked))
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
	raw, err := ssh.ParseRawPrivateKey(file)
	if err != nil {
		t.Fatal(err)
	}
	k := raw.(*ed25519.PrivateKey)
	seed := mask(k.Seed())
	clear(*k)
	return seed
}

// While a pooled connection lives, the key that opened it is nowhere in memory but
// in the caller's own (PEM) bytes.
func TestKeyIsLetGo(t *testing.T) {
	b := newBed(t, sshtest.Options{}, sshexec.PoolOptions{})
	seed := maskedSeed(t, b.auth.Key)
	k, err := sshexec.ParseKey(b.auth.Key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !inHeap(t, seed) {
		t.Fatal("the search does not find a key that is held: it shows nothing")
	}
	runtime.KeepAlive(k)
	k = sshexec.Key{}
	c := b.dial(t)
	defer b.pool.Put(c)
	if inHeap(t, seed) {
		t.Error("the key is still in memory after Dial")
	}
	m, cmd := b.match(t, "true")
	if r, _ := c.Run(t.Context(), cmd, m, nil, nil); r.Outcome != sshexec.Confirmed {
		t.Errorf("the connection did not live: %+v", r)
	}
	_ = k
}
