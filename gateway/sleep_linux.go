package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/godbus/dbus/v5"

	"sallyport/gateway/home"
)

// logind says that the machine is about to sleep, and waits (five seconds by default) for who asked it to
// (org.freedesktop.login1, inhibitor locks of mode "delay"). The address is fixed: what an environment says of it is not asked.
const (
	systemBus   = "unix:path=/run/dbus/system_bus_socket"
	logindName  = "org.freedesktop.login1"
	logindPath  = dbus.ObjectPath("/org/freedesktop/login1")
	manager     = "org.freedesktop.login1.Manager"
	aboutTo     = "PrepareForSleep"
	logindRetry = time.Minute
)

// beforeSleep calls lock before each sleep, until ctx ends. Without a bus or logind it goes on trying, seldom.
func beforeSleep(ctx context.Context, address string, lock func()) {
	for {
		untilGone(ctx, address, lock) // there may be no bus here: a container, a server without systemd
		select {
		case <-ctx.Done():
			return
		case <-time.After(logindRetry):
		}
	}
}

// untilGone follows logind until the connection ends.
func untilGone(ctx context.Context, address string, lock func()) error {
	conn, err := dbus.Connect(address, dbus.WithContext(ctx))
	if err != nil {
		return err
	}
	defer conn.Close()
	signals := make(chan *dbus.Signal, 4)
	conn.Signal(signals)
	if err := conn.AddMatchSignalContext(ctx, dbus.WithMatchSender(logindName), dbus.WithMatchInterface(manager), dbus.WithMatchMember(aboutTo)); err != nil {
		return err
	}
	hold, err := inhibit(ctx, conn)
	if err != nil {
		return err
	}
	defer func() { hold.Close() }()
	for {
		var s *dbus.Signal
		var open bool
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s, open = <-signals:
		}
		if !open {
			return errors.New("the bus is gone")
		}
		if s.Name != manager+"."+aboutTo || len(s.Body) != 1 {
			continue
		}
		if before, ok := s.Body[0].(bool); ok && before {
			lock()
			hold.Close() // logind waits for this
			continue
		}
		hold.Close()
		if hold, err = inhibit(ctx, conn); err != nil {
			return err
		}
	}
}

// inhibit asks logind to wait before it sleeps until the file is closed.
func inhibit(ctx context.Context, conn *dbus.Conn) (*os.File, error) {
	var fd dbus.UnixFD
	err := conn.Object(logindName, logindPath).CallWithContext(ctx, manager+".Inhibit", 0, "sleep", home.Product, "locks its vault", "delay").Store(&fd)
	if err != nil {
		return nil, fmt.Errorf("ask logind to wait: %w", err)
	}
	return os.NewFile(uintptr(fd), "inhibitor"), nil
}
