package service

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// safe refuses a program that somebody else than root could exchange: a gateway under a user of its own would then be
// whatever an agent's shell puts there. Links are followed, and every folder above counts. It returns the path without
// links, which alone was judged.
func (h Host) safe(program string) (string, error) {
	if program == "" {
		program = DefaultProgram
	}
	path, err := filepath.EvalSymlinks(program)
	if err != nil {
		return "", err
	}
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return "", errors.Join(err, fmt.Errorf("%s is no program", path))
	}
	for p := path; ; p = filepath.Dir(p) {
		var st unix.Stat_t
		if err := unix.Stat(p, &st); err != nil {
			return "", fmt.Errorf("look at %s: %w", p, err)
		}
		if st.Uid != 0 || st.Mode&0o022 != 0 {
			return "", fmt.Errorf("%s can be changed by another user than root: install sp and spd where only root writes, such as %s", p, filepath.Dir(DefaultProgram))
		}
		if p == "/" || p == h.Root {
			return path, nil
		}
	}
}
