package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// harden is L0: what a hostile starter of the same user could have left us is dropped before a secret is near.
// An environment beyond the allowed names (LD_PRELOAD, GODEBUG, SSL_CERT_FILE, proxies …) makes spd start itself
// afresh without it, so that not even the loader has seen it. Inherited descriptors are closed, core dumps and ptrace
// by the same user are off, new files are private, and a process that is being traced does not start.
func harden() error {
	if env := allowedEnv(os.Environ()); len(env) != len(os.Environ()) {
		return fmt.Errorf("start afresh: %w", unix.Exec("/proc/self/exe", os.Args, env))
	}
	unix.Umask(0o077)
	err := errors.Join(
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0),
		unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}),
		closeInherited(),
	)
	if err != nil {
		return fmt.Errorf("harden: %w", err)
	}
	return notTraced()
}

// closeInherited closes descriptors that came with us: this program opens its own with close-on-exec.
func closeInherited() error {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range list {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return nil
}

func notTraced() error {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, rest, ok := strings.Cut(string(b), "\nTracerPid:")
	line, _, _ := strings.Cut(rest, "\n")
	if pid := strings.TrimSpace(line); !ok || pid != "0" {
		return fmt.Errorf("process %s is tracing this one; a gateway does not start under a debugger", pid)
	}
	return nil
}
