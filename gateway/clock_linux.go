package gateway

import "golang.org/x/sys/unix"

const clockBoot = unix.CLOCK_BOOTTIME
