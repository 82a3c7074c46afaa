package gateway

import (
	"crypto/rand"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sys/unix"

	"sallyport/authz"
)

// now reads both clocks: wall time, and time since boot, which goes on through a suspend.
func now() authz.Instant {
	return authz.Instant{Wall: time.Now().UTC().Round(0), Boot: boot()}
}

// after is i plus d on both clocks.
func after(i authz.Instant, d time.Duration) authz.Instant {
	return authz.Instant{Wall: i.Wall.Add(d), Boot: i.Boot + d}
}

// boot is the time since the machine started, and awake that without what it slept. Zero: not known.
func boot() time.Duration  { return read(clockBoot) }
func awake() time.Duration { return read(clockAwake) }

func read(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// newID makes prefix + ULID: sorted by time, 80 random bits.
func newID(prefix string) string {
	return prefix + ulid.MustNew(ulid.Now(), rand.Reader).String()
}
