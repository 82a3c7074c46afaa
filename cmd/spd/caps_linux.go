package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// What spd may do to the processes of another user, and nothing else: look at them, read what they execute, signal them.
// Every thread has them from the exec on. They stay ambient: spd starts no program that could inherit them.
var needed = []struct {
	cap  int
	name string
}{
	{unix.CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"},
	{unix.CAP_KILL, "CAP_KILL"},
	{unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE"},
}

// capsExact says whether this process has the three capabilities and no other.
func capsExact() (bool, error) {
	have, err := capabilities()
	if err != nil {
		return false, err
	}
	for set := range have {
		if have[set] != neededMask() {
			return false, nil
		}
	}
	return true, nil
}

func neededMask() (m uint64) {
	for _, n := range needed {
		m |= 1 << n.cap
	}
	return m
}

// capabilities are this thread's effective and permitted sets.
func capabilities() (sets [2]uint64, err error) {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	if err := unix.Capget(&h, &d[0]); err != nil {
		return sets, fmt.Errorf("read capabilities: %w", err)
	}
	return [2]uint64{uint64(d[0].Effective) | uint64(d[1].Effective)<<32, uint64(d[0].Permitted) | uint64(d[1].Permitted)<<32}, nil
}

// narrow lets the exec that follows on this thread end with the three capabilities alone.
func narrow() error {
	have, err := capabilities()
	if err != nil {
		return err
	}
	var missing []string
	for _, n := range needed {
		if have[1]&(1<<n.cap) == 0 {
			missing = append(missing, n.name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("it has not the right %s: the service manager gives it (see `sp service print systemd`)", strings.Join(missing, ", "))
	}
	m := neededMask()
	sets := [2]unix.CapUserData{{Effective: uint32(m), Permitted: uint32(m), Inheritable: uint32(m)}}
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&h, &sets[0]); err != nil {
		return fmt.Errorf("narrow capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("narrow capabilities: %w", err)
	}
	for _, n := range needed {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(n.cap), 0, 0); err != nil {
			return fmt.Errorf("keep %s: %w", n.name, err)
		}
	}
	return nil
}

// narrowed is what the second start of a served spd has in its environment: a third would be a loop.
const narrowed = "SALLYPORT_NARROWED=1"

// hardenServed makes sure of a user of its own and of the three capabilities, before harden.
func hardenServed(uid uint32) error {
	switch euid := os.Geteuid(); {
	case euid == 0:
		return errors.New("--serve-uid is for a gateway under a user of its own, not root's: root could do anything")
	case uid == 0:
		return errors.New("--serve-uid 0: no gateway is kept from root, so nothing would be gained")
	case uint32(euid) == uid:
		return fmt.Errorf("--serve-uid %d is this process's own user: start it under another", uid)
	}
	exact, err := capsExact()
	if err != nil || exact {
		return err
	}
	if slices.Contains(os.Environ(), narrowed) {
		return errors.New("its capabilities can't be narrowed to the three it needs")
	}
	runtime.LockOSThread() // capabilities are a thread's; the exec keeps this one's
	if err := narrow(); err != nil {
		return err
	}
	return fmt.Errorf("start afresh: %w", unix.Exec("/proc/self/exe", os.Args, append(allowedEnv(os.Environ()), narrowed)))
}
