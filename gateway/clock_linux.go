package gateway

import "golang.org/x/sys/unix"

const (
	clockBoot  = unix.CLOCK_BOOTTIME
	clockAwake = unix.CLOCK_MONOTONIC // stands still while the machine sleeps
)
