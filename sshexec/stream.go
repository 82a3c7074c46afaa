package sshexec

import (
	"context"
	"io"
	"sync/atomic"

	"golang.org/x/crypto/ssh"
)

// feed writes stdin in chunks, none of which begins after ctx has ended.
func feed(ctx context.Context, ch ssh.Channel, stdin []byte) {
	for len(stdin) > 0 && ctx.Err() == nil {
		n := min(len(stdin), 32<<10)
		if _, err := ch.Write(stdin[:n]); err != nil {
			return // the command does not read, or is gone: its exit tells
		}
		stdin = stdin[n:]
	}
	if ctx.Err() == nil {
		_ = ch.CloseWrite()
	}
}

// room bounds what the streams of one command may write; full is called when it is used up.
type room struct {
	left atomic.Int64
	full func()
}

func newRoom(n int64, full func()) *room {
	r := &room{full: full}
	r.left.Store(n)
	return r
}

// take asks for n bytes and gives how many there are. A nil room has no end.
func (r *room) take(n int) int {
	if r == nil {
		return n
	}
	left := r.left.Add(-int64(n))
	if left >= 0 {
		return n
	}
	r.full()
	return max(0, n+int(left))
}

// sink reads r to its end: what there is room for goes to w, the rest nowhere.
type sink struct {
	r       io.Reader
	w       io.Writer
	room    *room
	dropped bool // something did not reach w
	cut     bool // the end is that of the connection
}

func (k *sink) drain(broken *atomic.Bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := k.r.Read(buf)
		pass := k.room.take(n)
		k.dropped = k.dropped || pass < n
		if pass > 0 && k.w != nil {
			if _, err := k.w.Write(buf[:pass]); err != nil {
				k.dropped, k.w = true, nil
			}
		}
		if err != nil {
			k.cut = broken.Load() || err != io.EOF
			return
		}
	}
}
