package wrap

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithUs has the kernel kill the child when we are killed.
func dieWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = unix.SIGKILL }

// awaitExit waits until the process has ended and leaves its zombie.
func awaitExit(c *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
