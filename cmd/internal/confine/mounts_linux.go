package confine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// A folder has another name where its file system, or a part of it, is mounted a second time: a bind mount, a subvolume
// beside the whole. Landlock goes by the way to a file, so each name has to be hidden.

// allNames adds to hidden every other name that the mounts of this moment give it.
func allNames(hidden []string) ([]string, error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return aliases(info, hidden)
}

// place is a folder of a file system, by no mount's name.
type place struct {
	major, minor int
	path         string
}

// aliases is allNames by the text of a mountinfo (proc_pid_mountinfo(5)).
func aliases(info []byte, hidden []string) ([]string, error) {
	mounts, err := mountinfo.GetMountsFromReader(bytes.NewReader(info), nil)
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	var places []place
	for _, h := range hidden {
		var at *mountinfo.Info
		for _, m := range mounts { // the last of the longest lies on top
			if _, ok := below(h, m.Mountpoint); ok && (at == nil || len(m.Mountpoint) >= len(at.Mountpoint)) {
				at = m
			}
			if _, ok := below(m.Mountpoint, h); ok { // mounted inside
				places = append(places, place{m.Major, m.Minor, m.Root})
			}
		}
		if at != nil {
			rest, _ := below(h, at.Mountpoint)
			places = append(places, place{at.Major, at.Minor, filepath.Join(at.Root, rest)})
		}
	}
	out := slices.Clone(hidden)
	for _, p := range places {
		for _, m := range mounts {
			if m.Major != p.major || m.Minor != p.minor {
				continue
			}
			if rest, ok := below(p.path, m.Root); ok {
				out = append(out, filepath.Join(m.Mountpoint, rest))
			} else if _, ok := below(m.Root, p.path); ok {
				out = append(out, m.Mountpoint)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// below is what of path comes after dir, if it is dir or lies in it.
func below(path, dir string) (rest string, ok bool) {
	if path == dir {
		return "", true
	}
	return strings.CutPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
