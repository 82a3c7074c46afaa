//go:build !linux

package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// harden is L0 as far as this system allows: a clean environment, no core, private files.
func harden() error {
	if env := allowedEnv(os.Environ()); len(env) != len(os.Environ()) {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return fmt.Errorf("start afresh: %w", unix.Exec(self, os.Args, env))
	}
	unix.Umask(0o077)
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}

// hardenServed refuses what would change nothing; there are no capabilities here.
func hardenServed(uid uint32) error {
	if euid := os.Geteuid(); euid == 0 || uid == 0 || uint32(euid) == uid {
		return errors.New("--serve-uid is for a gateway under a user of its own: neither root's nor the one it serves")
	}
	return nil
}
