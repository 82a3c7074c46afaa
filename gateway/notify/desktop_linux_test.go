package notify

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// daemon is a notification service on a real bus: what the specification names, and no more.
type daemon struct {
	shown  chan []any
	closed chan uint32
}

func (d daemon) Notify(app string, replaces uint32, icon, summary, body string, actions []string, hints map[string]dbus.Variant, expire int32) (uint32, *dbus.Error) {
	d.shown <- []any{app, replaces, summary, body, len(actions)}
	if replaces != 0 {
		return replaces, nil
	}
	return 7, nil
}

func (d daemon) CloseNotification(id uint32) *dbus.Error { d.closed <- id; return nil }

// newBus starts a session bus of the test's own.
func newBus(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("dbus-daemon")
	if err != nil {
		if os.Getenv("SALLYPORT_REAL") == "require" {
			t.Fatal("dbus-daemon: it is not installed, and SALLYPORT_REAL=require")
		}
		t.Skip("dbus-daemon: it is not installed")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, "--session", "--nofork", "--print-address", "--address=unix:path="+filepath.Join(t.TempDir(), "bus"))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// One note stands for all that waits, and goes with it.
func TestDesktop(t *testing.T) {
	address := newBus(t)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", address)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	d := &desktop{}
	if err := d.tell(ctx, note{waiting: 1}); err == nil || !strings.Contains(err.Error(), "show notification") {
		t.Errorf("without a service: %v", err)
	}
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s := daemon{make(chan []any, 4), make(chan uint32, 4)}
	if err := conn.Export(s, object, service); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.RequestName(service, dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
	for i, n := range []int{1, 4} {
		if err := d.tell(ctx, note{waiting: n}); err != nil {
			t.Fatal(err)
		}
		got := <-s.shown
		if replaces := []uint32{0, 7}[i]; got[0] != "Sallyport" || got[1] != replaces || got[2] != "Sallyport" || got[3] != (note{waiting: n}).text() || got[4] != 0 {
			t.Errorf("%v", got)
		}
	}
	if err := d.tell(ctx, note{replaced: 2}); err != nil { // beside what waits, not in its place
		t.Fatal(err)
	}
	if got := <-s.shown; got[1] != uint32(0) || got[3] != (note{replaced: 2}).text() {
		t.Errorf("%v", got)
	}
	for range 2 { // the second has nothing to take away
		if err := d.tell(ctx, note{waiting: 0}); err != nil {
			t.Fatal(err)
		}
	}
	if id := <-s.closed; id != 7 || len(s.closed) != 0 {
		t.Errorf("closed %d", id)
	}
}

// What an address may name besides a socket could start programs.
func TestDesktopStartsNothing(t *testing.T) {
	for _, a := range []string{"autolaunch:", "unixexec:path=/bin/true", "tcp:host=localhost,port=1", "unix:path=/x;unixexec:path=/bin/true", "unix:path=" + filepath.Join(t.TempDir(), "none")} {
		t.Setenv("DBUS_SESSION_BUS_ADDRESS", a)
		if err := (&desktop{}).tell(t.Context(), note{waiting: 1}); err == nil || !strings.Contains(err.Error(), "no session bus") {
			t.Errorf("%s: %v", a, err)
		}
	}
}
