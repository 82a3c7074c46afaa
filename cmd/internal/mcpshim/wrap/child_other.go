//go:build !linux

package wrap

import (
	"os/exec"
	"syscall"
)

func dieWithUs(*syscall.SysProcAttr) {}

// awaitExit also takes the zombie away: elsewhere there is no wait that leaves it. Wait called again is an error that nobody reads.
func awaitExit(c *exec.Cmd) { c.Wait() }
