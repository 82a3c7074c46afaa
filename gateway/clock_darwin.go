package gateway

import "golang.org/x/sys/unix"

// clockBoot: macOS's CLOCK_MONOTONIC goes on while the machine sleeps, CLOCK_UPTIME_RAW does not (clock_gettime(3)).
const (
	clockBoot  = unix.CLOCK_MONOTONIC
	clockAwake = unix.CLOCK_UPTIME_RAW
)
