package notify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/godbus/dbus/v5"
)

// desktop speaks to the session's notification service. One note stands for all that waits: a later one takes its place,
// and it goes when nothing waits any more. A replacement has one of its own.
type desktop struct {
	shown uint32 // 0: none
}

const (
	service = "org.freedesktop.Notifications"
	object  = dbus.ObjectPath("/org/freedesktop/Notifications")
)

var errNoBus = errors.New("no session bus: the gateway was started outside of a desktop's session")

// sessionBus is a socket alone: what else an address may name could start programs.
func sessionBus() (string, error) {
	a := os.Getenv("DBUS_SESSION_BUS_ADDRESS")
	if a == "" {
		a = fmt.Sprintf("unix:path=/run/user/%d/bus", os.Geteuid())
	}
	if !strings.HasPrefix(a, "unix:") || strings.Contains(a, ";") {
		return "", errNoBus
	}
	return a, nil
}

func (d *desktop) tell(ctx context.Context, n note) error {
	over := n == (note{})
	if over && d.shown == 0 {
		return nil
	}
	address, err := sessionBus()
	if err != nil {
		return err
	}
	conn, err := dbus.Connect(address, dbus.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("%w (%v)", errNoBus, err)
	}
	defer conn.Close()
	to := conn.Object(service, object)
	if over {
		id := d.shown
		d.shown = 0
		return wrap(to.CallWithContext(ctx, service+".CloseNotification", 0, id).Err)
	}
	hints := map[string]dbus.Variant{"urgency": dbus.MakeVariant(byte(1)), "category": dbus.MakeVariant("im.received")}
	show := &d.shown
	if n.replaced > 0 {
		show = new(uint32) // it stays until somebody has seen it, and takes no card's place
	}
	return wrap(to.CallWithContext(ctx, service+".Notify", 0, title, *show, "", title, n.text(), []string{}, hints, int32(-1)).Store(show))
}

func wrap(err error) error {
	if err != nil {
		return fmt.Errorf("show notification: %w", err)
	}
	return nil
}
