package store_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/gateway/store"
	"sallyport/vault"
)

// crowded mounts a small file system with a vault on it, and fills the rest.
func crowded(t *testing.T) (path string, spare func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("tmpfs: mounting one needs root")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("tmpfs: %v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("umount", "-l", dir).Run() })
	from, _ := created(t)
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "vault.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, func() { os.Remove(filepath.Join(dir, "filler")) }
}

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(filepath.Join(filepath.Dir(path), "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, n := range []int{64 << 10, 4 << 10} {
		for err == nil {
			_, err = f.Write(make([]byte, n))
		}
		err = nil
	}
}

// TestFullDisk: what finds no room says so, and loses nothing.
func TestFullDisk(t *testing.T) {
	path, spare := crowded(t)
	d := open(t, path)
	v := unlocked(t, d, key())
	good := backup(t, v)
	fill(t, path)
	ways := map[string]func() error{
		"add": func() error {
			_, err := v.AddCredential(t.Context(), vault.Meta{Name: "new", Rules: make([]byte, 100_000)}, []byte("x"), nil)
			return err
		},
		"slot": func() error {
			var err error
			for i := 0; err == nil && i < 20; i++ { // the WAL may have room for one
				_, err = v.ChangePassphrase(t.Context(), key(), key(), quick, nil)
			}
			return err
		},
		"rekey": func() error {
			_, err := v.Rekey(t.Context(), []vault.Key{key()}, quick, nil)
			return err
		},
		"backup": func() error { _, err := v.Backup(t.Context(), &bytes.Buffer{}); return err },
	}
	for name, f := range ways {
		err := f()
		if err == nil || !strings.Contains(err.Error(), "full") && !strings.Contains(err.Error(), "no space") {
			t.Errorf("%s: %v", name, err)
		}
		if got := store.DiskFault(err); got != "the disk is full" {
			t.Errorf("%s: %v is told as %q", name, err, got)
		}
		readable(t, v)
	}
	v.Lock()
	if _, err := v.Restore(t.Context(), bytes.NewReader(good), key(), vault.RestoreOptions{Limit: roomy}, nil); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("restore: %v", err)
	}
	if err := v.Unlock(t.Context(), key()); err != nil {
		t.Fatalf("on a full disk: %v", err)
	}
	readable(t, v)
	spare()
	for name, f := range ways {
		if name == "slot" {
			continue // done often enough
		}
		if err := f(); err != nil {
			t.Errorf("%s with room again: %v", name, err)
		}
	}
	v.Lock()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, path)
	v = unlocked(t, d, key())
	if _, ok := v.Snapshot().Credential("new"); !ok || v.Snapshot().Generation != 2 {
		t.Errorf("%+v", v.Snapshot())
	}
}

// TestReadOnlyDisk: the same for a disk that takes nothing.
func TestReadOnlyDisk(t *testing.T) {
	path, _ := crowded(t)
	d := open(t, path)
	v := unlocked(t, d, key())
	dir := filepath.Dir(path)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-o", "remount,ro", dir).CombinedOutput(); err != nil {
		t.Skipf("remount: %v: %s", err, out)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := store.Open(t.Context(), path); err == nil {
		d.Close()
		t.Error("opened")
	} else if !strings.Contains(strings.ReplaceAll(err.Error(), "-", ""), "readonly") && !strings.Contains(err.Error(), "unable to open") {
		t.Errorf("the error does not say why: %v", err)
	}
	if _, err := v.AddHost(t.Context(), vault.Host{Name: "h"}, nil); err == nil {
		t.Error("a closed database took a change")
	}
	if out, err := exec.Command("mount", "-o", "remount,rw", dir).CombinedOutput(); err != nil {
		t.Fatalf("remount: %v: %s", err, out)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("changed: %v", err)
	}
	readable(t, unlocked(t, open(t, path), key()))
}

// TestClosed: a database that is closed says so and does not come back.
func TestClosed(t *testing.T) {
	path, _ := created(t)
	d := open(t, path)
	v := unlocked(t, d, key())
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	_, rekey := v.Rekey(t.Context(), []vault.Key{key()}, quick, nil)
	_, backup := v.Backup(t.Context(), &bytes.Buffer{})
	for name, err := range map[string]error{"rekey": rekey, "backup": backup,
		"drop": v.Drop(t.Context(), vault.Credentials, "alpha", nil)} {
		if err == nil || errors.Is(err, vault.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	readable(t, unlocked(t, open(t, path), key()))
}
