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

// sink reads r to its end: the first OutputLimit bytes go to w, the rest nowhere.
type sink struct {
	r       io.Reader
	w       io.Writer
	n       int
	dropped bool // something did not reach w
	cut     bool // the end is that of the connection
}

func (k *sink) drain(broken *atomic.Bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := k.r.Read(buf)
		pass := min(n, OutputLimit-k.n)
		k.n += pass
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
