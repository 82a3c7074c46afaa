package doctor

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// LookDisk looks at the disk of path, or of the nearest folder above that exists. root stands before /proc and /sys: ""
// but in tests.
func LookDisk(root, path string) Disk {
	d := Disk{Path: path}
	at := path
	for {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			at = real
			break
		}
		up := filepath.Dir(at)
		if up == at {
			return d
		}
		at = up
	}
	var fs unix.Statfs_t
	if unix.Statfs(at, &fs) == nil {
		d.Known = true
		d.Free, d.Files, d.FreeFiles = fs.Bavail*uint64(fs.Bsize), fs.Files, fs.Ffree
		d.ReadOnly = fs.Flags&unix.ST_RDONLY != 0
	}
	m, ok := mountOf(file(root, "/proc/self/mountinfo"), at)
	if !ok {
		return d
	}
	d.Type = m.kind
	d.Encryption = encryption(root, m)
	return d
}

type mount struct{ device, kind, source string }

// mountOf is the mount that path lies in: the last of the longest mount points above it (proc_pid_mountinfo(5)).
func mountOf(table, path string) (best mount, ok bool) {
	longest := -1
	for l := range strings.Lines(table) {
		front, back, found := strings.Cut(l, " - ")
		f, b := strings.Fields(front), strings.Fields(back)
		if !found || len(f) < 5 || len(b) < 2 {
			continue
		}
		point := unescape.Replace(f[4])
		if path != point && point != "/" && !strings.HasPrefix(path, point+"/") {
			continue
		}
		if len(point) >= longest {
			longest, best, ok = len(point), mount{f[2], b[0], b[1]}, true
		}
	}
	return best, ok
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// encryption follows the device down to what it is made of: one that is encrypted on the way counts for all above it.
func encryption(root string, m mount) Encryption {
	if m.kind == "ecryptfs" || m.kind == "fuse.gocryptfs" {
		return Encrypted
	}
	dir := filepath.Join(root, "/sys/dev/block", m.device)
	if _, err := os.Stat(dir); err != nil {
		if !strings.HasPrefix(m.source, "/dev/") { // overlay, zfs, a network
			return EncryptionUnknown
		}
		dir = filepath.Join(root, "/sys/class/block", filepath.Base(m.source))
	}
	return below(dir, 8)
}

// below looks at one device and what it lies on. Depth bounds a broken tree.
func below(dir string, depth int) Encryption {
	if _, err := os.Stat(dir); err != nil || depth == 0 {
		return EncryptionUnknown
	}
	if b, err := os.ReadFile(filepath.Join(dir, "dm/uuid")); err == nil && strings.HasPrefix(string(b), "CRYPT-") {
		return Encrypted
	}
	parts, err := os.ReadDir(filepath.Join(dir, "slaves"))
	if err != nil || len(parts) == 0 {
		return Plain
	}
	for _, p := range parts {
		if e := below(filepath.Join(dir, "slaves", p.Name()), depth-1); e != Encrypted {
			return e
		}
	}
	return Encrypted
}
