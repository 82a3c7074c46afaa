package keychain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport/vault/keychain"
)

const limit = time.Minute // bounds what these tests wait for; nothing is measured

// refused makes every call and wants the same error of each, in time.
func refused(t *testing.T, k *keychain.Keychain, ctx context.Context, want error) {
	t.Helper()
	began := time.Now()
	_, get := k.Get(ctx, "a")
	for name, err := range map[string]error{"get": get, "set": k.Set(ctx, "a", []byte("secret")), "delete": k.Delete(ctx, "a")} {
		if !errors.Is(err, want) || strings.Contains(fmt.Sprint(err), "secret\"") {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if took := time.Since(began); took > 3*limit {
		t.Errorf("three calls took %v", took)
	}
}

// TestNoBus: V06. Without a bus nothing is started to have one.
func TestNoBus(t *testing.T) {
	if _, err := os.Stat(fmt.Sprintf("/run/user/%d/bus", os.Getuid())); err == nil {
		t.Skip("session bus: there is one here")
	}
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	if err := os.WriteFile(filepath.Join(dir, "dbus-launch"), []byte("#!/bin/sh\n: >"+ran+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	for _, address := range []string{"", "autolaunch:", "autolaunch:scope=user", "unixexec:path=" + filepath.Join(dir, "dbus-launch"),
		"tcp:host=127.0.0.1,port=1", "unix:path=/none;unixexec:path=" + filepath.Join(dir, "dbus-launch")} {
		t.Setenv("DBUS_SESSION_BUS_ADDRESS", address)
		refused(t, keychain.New("sallyport-test"), t.Context(), keychain.ErrUnavailable)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("dbus-launch was run")
	}
}

// TestDeadBus: V06. An address where nobody is.
func TestDeadBus(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "bus"))
	refused(t, keychain.New("sallyport-test"), t.Context(), keychain.ErrUnavailable)
}

// TestSilentBus: V06. An address where nobody answers.
func TestSilentBus(t *testing.T) {
	name := filepath.Join(t.TempDir(), "bus")
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // ends what was given up
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+name)
	k := keychain.New("sallyport-test")
	began := time.Now()
	if _, err := k.Get(t.Context(), "a"); !errors.Is(err, keychain.ErrTimeout) || time.Since(began) > limit {
		t.Errorf("V06 %v after %v", err, time.Since(began))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Get(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("behind one that was given up: %v", err)
	}
}

func TestLimits(t *testing.T) {
	k := keychain.New("sallyport-test")
	for _, n := range []int{0, 4097} {
		if err := k.Set(t.Context(), "a", make([]byte, n)); err == nil {
			t.Errorf("%d bytes were taken", n)
		}
	}
}

const insideEnv = "SALLYPORT_TEST_KEYRING"

// TestKeyring runs TestInside in a session with a keyring of its own.
func TestKeyring(t *testing.T) {
	for _, program := range []string{"gnome-keyring-daemon", "dbus-run-session", "dbus-send", "secret-tool"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("SALLYPORT_REAL") == "require" {
				t.Fatalf("%s: %v", program, err)
			}
			t.Skipf("%s: not installed", program)
		}
	}
	dir := t.TempDir()
	c := exec.Command("dbus-run-session", "--", "sh", "-c",
		`printf pw | gnome-keyring-daemon --unlock --components=secrets >/dev/null && exec "$0" -test.run '^TestInside$' -test.v -test.timeout 300s`, os.Args[0])
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "DISPLAY=") && !strings.HasPrefix(e, "WAYLAND_DISPLAY=") && !strings.HasPrefix(e, "DBUS_") {
			c.Env = append(c.Env, e)
		}
	}
	c.Env = append(c.Env, insideEnv+"=1", "HOME="+dir, "XDG_RUNTIME_DIR="+dir, "XDG_DATA_HOME="+dir)
	out, err := c.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestInside")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestInside does what it does to the keyring of the session it runs in.
func TestInside(t *testing.T) {
	if os.Getenv(insideEnv) == "" {
		t.Skip("keyring: TestKeyring makes one and runs this in it")
	}
	k := keychain.New("sallyport-test")
	var err error
	for began := time.Now(); time.Since(began) < limit; { // the daemon comes up; it can be read some time before it can be written
		if err = k.Set(t.Context(), "first", []byte("written")); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatalf("write the first item: %v", err)
	}
	if _, err := k.Get(t.Context(), "a"); !errors.Is(err, keychain.ErrNotFound) {
		t.Fatalf("read no item: %v", err)
	}
	get := func(account, want string) {
		t.Helper()
		if b, err := k.Get(t.Context(), account); string(b) != want || err != nil {
			t.Errorf("%s: %q, %v", account, b, err)
		}
	}
	for account, secret := range map[string]string{"a": "AGE-SECRET-KEY-PQ-1EXAMPLE", "b": string([]byte{0, 0xff, '\n', 16}), "c": strings.Repeat("x", 4096)} {
		if err := k.Set(t.Context(), account, []byte(secret)); err != nil {
			t.Fatal(err)
		}
		get(account, secret)
	}
	if err := k.Set(t.Context(), "a", []byte("second")); err != nil {
		t.Fatal(err)
	}
	get("a", "second")
	for i := range 400 { // by the library alone, one of 256 sessions agrees on a number that begins with a zero byte
		if b, err := k.Get(t.Context(), "a"); string(b) != "second" || err != nil {
			t.Fatalf("read %d: %q, %v", i, b, err)
		}
	}
	out, err := exec.Command("secret-tool", "lookup", "service", "sallyport-test", "account", "a").Output()
	if string(out) != "second" || err != nil {
		t.Errorf("another program reads %q, %v", out, err)
	}
	if _, err := keychain.New("another service").Get(t.Context(), "a"); !errors.Is(err, keychain.ErrNotFound) {
		t.Errorf("another service's: %v", err)
	}
	if err := k.Delete(t.Context(), "b"); err != nil {
		t.Error(err)
	}
	if err := k.Delete(t.Context(), "b"); !errors.Is(err, keychain.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	lock := exec.Command("dbus-send", "--session", "--print-reply", "--dest=org.freedesktop.secrets", "/org/freedesktop/secrets",
		"org.freedesktop.Secret.Service.Lock", "array:objpath:/org/freedesktop/secrets/aliases/default,/org/freedesktop/secrets/collection/login")
	if out, err := lock.CombinedOutput(); err != nil {
		t.Fatalf("lock: %v: %s", err, out)
	}
	refused(t, k, t.Context(), keychain.ErrLocked) // V06
}
