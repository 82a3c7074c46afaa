// Package confine starts a program that can't open some folders, nor reach beyond
// itself by abstract sockets, signals and ptrace: Landlock, on Linux. Landlock
// allows and never denies, so that everything beside the hidden folders is
// allowed by name; in a folder that lies above a hidden one nothing new can be
// made, because what is allowed there would be allowed in the hidden one too.
package confine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// opened lists what may be opened: everything but hidden, named by the highest folders that hold none of it.
func opened(dir string, hidden []string) (out []string, err error) {
	above := func(path string) bool {
		return slices.ContainsFunc(hidden, func(h string) bool { return strings.HasPrefix(h, strings.TrimSuffix(path, "/")+"/") })
	}
	if !above(dir) {
		return []string{dir}, nil
	}
	list, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
		return nil, nil // it couldn't be listed before either
	}
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		path := filepath.Join(dir, e.Name())
		switch {
		case slices.Contains(hidden, path), e.Type()&os.ModeSymlink != 0: // a link counts as what it points to
		case above(path):
			more, err := opened(path, hidden)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		default:
			out = append(out, path)
		}
	}
	return out, nil
}
