package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sallyport/gateway/api"
	"sallyport/gateway/home"
	"sallyport/gateway/peer"
)

// errNotOurs marks a socket that is there but must not be spoken to.
var errNotOurs = errors.New("not ours")

// dialAgent tries the candidate sockets in order. One that is absent or dead is
// passed over; one that is not ours ends the search, or whoever planted it could
// also choose which gateway answers.
func dialAgent(ctx context.Context, sockets []string) (net.Conn, error) {
	for _, path := range sockets {
		conn, err := dialPath(ctx, path)
		switch {
		case err == nil:
			return conn, nil
		case absent(err):
			continue
		default:
			return nil, unreachable(err)
		}
	}
	return nil, api.Fail("gateway_unreachable", "")
}

// dialOperator connects to where operator.addr points; home has checked that file.
func dialOperator(ctx context.Context, h home.Home) (net.Conn, error) {
	addr, uid, err := h.OperatorDoor()
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(addr, "@") {
		return dialUnix(ctx, addr, uid)
	}
	return dialPath(ctx, addr)
}

// dialPath is dialDoor for who will be looked at.
func dialPath(ctx context.Context, path string) (net.Conn, error) {
	conn, err := dialDoor(ctx, path)
	if err != nil {
		return nil, err
	}
	// The gateway names the run by whose stdin this process has: where Yama runs it must be let look.
	if err := peer.Admit(conn.(*net.UnixConn)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// dialDoor checks the socket file and its folder, then connects.
func dialDoor(ctx context.Context, path string) (net.Conn, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		if err == unix.EACCES { // the system's folder, which we may not enter: its gateway is another user's
			err = unix.ENOENT
		}
		return nil, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	uid, err := home.Owner(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if uint32(st.Mode)&unix.S_IFMT != unix.S_IFSOCK {
		return nil, fmt.Errorf("%s is no socket: %w", path, errNotOurs)
	}
	if int(st.Uid) != uid {
		return nil, fmt.Errorf("%s belongs to uid %d: %w", path, st.Uid, errNotOurs)
	}
	return dialUnix(ctx, path, uid)
}

// dialUnix connects and asks the kernel whose process listens: it must be uid's.
func dialUnix(ctx context.Context, addr string, want int) (net.Conn, error) {
	conn, err := connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	uid, err := peer.UID(conn.(*net.UnixConn))
	if err == nil && int(uid) != want {
		err = fmt.Errorf("the process at %s runs as uid %d: %w", addr, uid, errNotOurs)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// queueWait bounds the wait for a place in a listener's queue.
const queueWait = 20 * time.Second

// connect waits while the listener's queue is full. Linux then refuses a connection with EAGAIN instead of letting it wait
// (unix(7)), and whoever floods a door must not shut it for others.
func connect(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	end := time.Now().Add(queueWait)
	for {
		conn, err := d.DialContext(ctx, "unix", addr)
		if !errors.Is(err, unix.EAGAIN) || time.Now().After(end) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// absent says that nothing listens there.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ECONNREFUSED)
}

// unreachable is the error of a door that could not be opened.
func unreachable(err error) *api.Error {
	if absent(err) {
		return api.Fail("gateway_unreachable", "")
	}
	e := api.Fail("gateway_unreachable", err.Error())
	switch {
	case errors.Is(err, fs.ErrPermission): // another user, or started by `sp run`
		e.Retry = "this process may not reach that gateway's door: say it as its user, and outside of `sp run`"
	case errors.Is(err, home.ErrNotPrivate), errors.Is(err, errNotOurs):
		e.Retry = "make the folder yours alone (chmod 700), remove what is not yours in it, and start with `sp up`"
	}
	return e
}
