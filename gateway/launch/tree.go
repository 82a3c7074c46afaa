package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	filesMax = 20_000
	treeTime = 2 * time.Second
)

var errFiles = fmt.Errorf("more than %d files", filesMax)

// mark is what a file was like when it was measured.
type mark struct {
	digest string // "": not readable
	link   string // target of a symbolic link at the path
}

// tree is the files below some folders, by absolute path.
type tree struct {
	cache    *cache
	key      []byte
	deadline time.Time
	files    map[string]mark
	seen     map[[2]uint64]bool // folders by device and inode: links may loop
	queue    []place
}

type place struct {
	dir   string
	depth int
}

// skippedFolders hold no code that runs, or code that is derived from what is measured.
var skippedFolders = []string{".git", ".hg", ".svn", ".jj", "__pycache__", ".cache", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".nyc_output", "coverage"}

// skippedSuffixes are what programs write while they run.
var skippedSuffixes = []string{".log", ".pid", ".sock", ".tmp", ".swp", ".swo", "~", ".pyc", ".sqlite", ".sqlite3", ".db",
	"-wal", "-shm", "-journal"}

func skippedFile(name string) bool {
	return slices.ContainsFunc(skippedSuffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}

// walk measures all files below the folders.
func (t *tree) walk(roots []string) error {
	t.files, t.seen = make(map[string]mark), make(map[[2]uint64]bool)
	for _, r := range roots {
		t.queue = append(t.queue, place{real(r), 0})
	}
	for len(t.queue) > 0 {
		at := t.queue[len(t.queue)-1]
		t.queue = t.queue[:len(t.queue)-1]
		if err := t.folder(at); err != nil {
			return err
		}
	}
	return nil
}

// folder measures the files of one folder and queues those below it.
func (t *tree) folder(at place) error {
	if at.depth > depthMax {
		return fmt.Errorf("deeper than %d folders", depthMax)
	}
	var st unix.Stat_t
	if err := stat(at.dir, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return t.lost(at.dir, err)
	}
	id := [2]uint64{uint64(st.Dev), st.Ino}
	if t.seen[id] {
		return nil
	}
	t.seen[id] = true
	d, err := os.OpenFile(at.dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return t.lost(at.dir, err)
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(1024)
		for _, e := range entries {
			if err := t.entry(at, e); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return t.lost(at.dir, err)
		}
	}
}

func (t *tree) entry(at place, e os.DirEntry) error {
	path := at.dir + "/" + e.Name()
	if at.dir == "/" {
		path = "/" + e.Name()
	}
	switch e.Type() {
	case os.ModeDir:
		if !slices.Contains(skippedFolders, e.Name()) {
			t.queue = append(t.queue, place{path, at.depth + 1})
		}
		return nil
	case 0:
		if skippedFile(e.Name()) {
			return nil
		}
		return t.file(path, "")
	case os.ModeSymlink:
		return t.link(at, path)
	}
	return nil // a pipe, a socket, a device: no code
}

// link measures what a link leads to: a file under the link's own path, a folder
// under its real one, so that the way it was reached makes no difference.
func (t *tree) link(at place, path string) error {
	target, err := os.Readlink(path)
	if err != nil {
		return t.lost(path, err)
	}
	if skippedFile(filepath.Base(path)) {
		return nil
	}
	var st unix.Stat_t
	switch err := stat(path, &st); {
	case err != nil: // leads nowhere, or in a circle
		return t.add(path, mark{link: target})
	case regular(&st):
		return t.file(path, target)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return nil
	}
	if to := real(path); !slices.Contains(skippedFolders, filepath.Base(to)) {
		t.queue = append(t.queue, place{to, at.depth + 1})
	}
	return t.add(path, mark{link: target})
}

func (t *tree) file(path, link string) error {
	var d string
	var err error
	if strings.HasPrefix(filepath.Base(path), ".env") {
		if t.key == nil {
			return nil
		}
		d, _, err = keyed(path, t.key, t.deadline)
	} else {
		d, _, err = t.cache.digest(path, t.deadline)
	}
	if errors.Is(err, os.ErrPermission) {
		return t.add(path, mark{link: link})
	}
	if errors.Is(err, errNotRegular) {
		return nil // exchanged for something that is none
	}
	if err != nil {
		return t.lost(path, err)
	}
	return t.add(path, mark{d, link})
}

func (t *tree) add(path string, m mark) error {
	if len(t.files) >= filesMax {
		return errFiles
	}
	if len(t.files)%64 == 0 && time.Now().After(t.deadline) {
		return errTime
	}
	t.files[path] = m
	return nil
}

// lost is an error that names the place; a folder that may not be read is a mark.
func (t *tree) lost(path string, err error) error {
	if errors.Is(err, os.ErrPermission) {
		return t.add(path, mark{})
	}
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = errChanging
	}
	return fmt.Errorf("%s: %w", filepath.Base(path), err)
}

// digest is that of the lines that shasum would print, and how many files could
// not be read.
func (t *tree) digest(dir string) (sum string, unreadable int) {
	h := sha256.New()
	type line struct{ name, path string }
	lines := make([]line, 0, len(t.files))
	for p := range maps.Keys(t.files) {
		lines = append(lines, line{relative(dir, p), p})
	}
	slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.name, b.name) })
	for _, l := range lines {
		m := t.files[l.path]
		if m.link != "" {
			fmt.Fprintf(h, "link %s  %s\n", m.link, l.name)
		}
		switch {
		case m.digest != "":
			fmt.Fprintf(h, "%s  %s\n", strings.TrimPrefix(m.digest, "sha256:"), l.name)
		case m.link == "":
			unreadable++
			fmt.Fprintf(h, "unreadable  %s\n", l.name)
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), unreadable
}

// relative is path as seen from dir if it lies below it, else path.
func relative(dir, path string) string {
	if dir != "/" {
		if rest, ok := strings.CutPrefix(path, dir+"/"); ok && rest != "" {
			return rest
		}
	}
	return path
}
