//go:build !linux

package confine

import "golang.org/x/sys/unix"

// Missing names everything: there is no Landlock here.
func Missing() []string {
	return []string{"the vault, the log and the operators' door (only Linux has Landlock)"}
}

// Exec becomes path. It returns only on failure.
func Exec(path string, argv, env, _ []string) error { return unix.Exec(path, argv, env) }
