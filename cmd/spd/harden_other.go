//go:build !linux

package main

import (
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
