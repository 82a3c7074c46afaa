package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// bus is a message bus of the test's own.
func bus(t *testing.T) (address string) {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		if os.Getenv("SALLYPORT_REAL") == "require" {
			t.Fatalf("dbus-daemon: %v", err)
		}
		t.Skip("dbus-daemon: not installed")
	}
	dir, err := os.MkdirTemp("", "bus") // t.TempDir's is long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cmd := exec.Command("dbus-daemon", "--session", "--nofork", "--print-address=1", "--address=unix:path="+filepath.Join(dir, "bus"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// logind is the part of logind that is asked: it hands out inhibitors, and can see them closed.
type logind struct {
	conn *dbus.Conn
	held chan [2]*os.File // each inhibitor's other end, and this side's copy of what was handed out
}

func newLogind(t *testing.T, address string) *logind {
	t.Helper()
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	l := &logind{conn: conn, held: make(chan [2]*os.File, 8)}
	if err := conn.Export(l, logindPath, manager); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.RequestName(logindName, dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
	return l
}

// Inhibit is org.freedesktop.login1.Manager's.
func (l *logind) Inhibit(what, who, why, mode string) (dbus.UnixFD, *dbus.Error) {
	if what != "sleep" || mode != "delay" || who == "" || why == "" {
		return 0, dbus.NewError("org.example.Wrong", []any{what, mode})
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	fd := dbus.UnixFD(w.Fd())
	l.held <- [2]*os.File{r, w}
	return fd, nil
}

func (l *logind) say(t *testing.T, before bool) {
	t.Helper()
	if err := l.conn.Emit(logindPath, manager+"."+aboutTo, before); err != nil {
		t.Fatal(err)
	}
}

func within[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		t.Fatalf("%s: not within a minute", what)
	}
	return v
}

// Before the machine sleeps the vault is locked, and only then logind may go on; somebody else's word is none.
func TestLockBeforeSleep(t *testing.T) {
	address := bus(t)
	l := newLogind(t, address)
	ctx, cancel := context.WithCancel(t.Context())
	locked, asked, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		beforeSleep(ctx, address, func() { asked <- struct{}{}; <-locked })
	}()
	within(t, "the first inhibitor", l.held)

	other, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Emit(logindPath, manager+"."+aboutTo, true); err != nil {
		t.Fatal(err)
	}
	if err := other.BusObject().Call("org.freedesktop.DBus.GetId", 0).Err; err != nil { // the bus has dealt with what was sent before
		t.Fatal(err)
	}
	l.say(t, false) // woke from a sleep that nobody announced: a new inhibitor
	hold := within(t, "an inhibitor after waking", l.held)
	select {
	case <-asked:
		t.Error("locked by a stranger's word")
	default:
	}
	l.say(t, true)
	within(t, "the lock", asked)
	hold[1].Close() // the daemon has its own by now
	if err := hold[0].SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := hold[0].Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("logind may go on while the vault is being locked: %v", err)
	}
	close(locked)
	hold[0].SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := hold[0].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("logind has to wait for nothing: %v", err)
	}
	l.say(t, false)
	within(t, "the next inhibitor", l.held)
	cancel()
	within(t, "the end", done)
}

// Where there is no bus, or no logind on it, nothing is waited for.
func TestLockBeforeSleepWithoutLogind(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := untilGone(ctx, "unix:path="+filepath.Join(t.TempDir(), "none"), func() {}); err == nil {
		t.Error("connected to nothing")
	}
	if err := untilGone(ctx, bus(t), func() {}); err == nil || !strings.Contains(err.Error(), "logind") {
		t.Errorf("no logind: %v", err)
	}
	cancel()
	beforeSleep(ctx, systemBus, func() { t.Error("locked") })
}
