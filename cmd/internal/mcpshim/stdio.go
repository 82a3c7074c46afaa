package mcpshim

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"sallyport/cmd/internal/mcpshim/first"
)

// TakeStdio takes the protocol's two streams for the caller alone. File descriptor 1 then is stderr: whatever prints to
// standard output, in this process or in one it starts, cannot get into the protocol. Descriptor 0 stays where it is: the
// gateway looks at it to learn which process the host is. A host that has closed its end of stderr does not end the
// process by SIGPIPE any more. Call it once, before anything is printed.
func TakeStdio() (in io.ReadCloser, out io.WriteCloser, err error) {
	// Caught rather than ignored: an ignored signal would be inherited. Nobody reads the channel; writes answer EPIPE.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, nil, fmt.Errorf("move standard output: %w", err)
	}
	if err := unix.Dup2(2, 1); err != nil {
		unix.Close(fd)
		return nil, nil, fmt.Errorf("point standard output at standard error: %w", err)
	}
	return os.Stdin, os.NewFile(uintptr(fd), "mcp output"), nil
}

// Begun returns what was said on the process's own streams before main, and in from where that ended.
func Begun(in io.ReadCloser) (first.Session, io.ReadCloser) {
	said, rest, ended := first.Begun()
	all := []io.Reader{bytes.NewReader(rest), in}
	if ended { // a terminal's end is not read twice
		all = all[:1]
	}
	return said, &standard{io.MultiReader(all...), in}
}

// standard is the process's own input, of which the kernel knows who feeds it.
type standard struct {
	io.Reader
	io.Closer
}
