package wrap

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	folderLimit = 512 // folders watched below the entry's
	buildQuiet  = 250 * time.Millisecond
	reloadWait  = 2 * time.Second // for calls in flight, before a reload ends their server
	reloadLook  = 20 * time.Millisecond
)

// watch looks at the files that the gateway measured, and at what lies beside the entry.
type watch struct {
	fs      *fsnotify.Watcher
	digests map[string]string // by absolute path: what the running process was started from
	kind    string            // the entry's extension: files of the same kind beside it are code too
	changed map[string]bool   // since the start, as shown
	due     bool
	said    map[string]bool
}

func (f *watch) close() { f.fs.Close() }

// watch looks at the files of a new record, and no longer at those of the one before. That a system gives no watches is said,
// and costs the status lines and reloads: the gateway looks at the files by itself.
func (w *wrapper) watch(record jsontext.Value) {
	if w.files != nil {
		w.files.close()
		w.files = nil
	}
	type artifact struct {
		Path   string `json:"path"`
		Digest string `json:"digest"`
	}
	var r struct {
		Entry          string     `json:"entry"`
		EntryDigest    string     `json:"entryDigest"`
		Lockfile       string     `json:"lockfile"`
		LockfileDigest string     `json:"lockfileDigest"`
		Files          []artifact `json:"files"`
		Config         []artifact `json:"config"`
	}
	if json.Unmarshal(record, &r) != nil || r.Entry == "" {
		return
	}
	n, err := fsnotify.NewWatcher()
	if err != nil {
		w.say("sp mcp: files are not watched: %v", err)
		return
	}
	f := &watch{fs: n, digests: make(map[string]string), kind: filepath.Ext(r.Entry), changed: make(map[string]bool), said: make(map[string]bool)}
	for _, a := range slices.Concat([]artifact{{r.Entry, r.EntryDigest}, {r.Lockfile, r.LockfileDigest}}, r.Files, r.Config) {
		if a.Path == "" || !strings.HasPrefix(a.Digest, "sha256:") {
			continue
		}
		path := a.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(w.cfg.Dir, path)
		}
		f.digests[path] = a.Digest
		n.Add(filepath.Dir(path)) // one that is not there any more is found by the gateway
	}
	entry := r.Entry
	if !filepath.IsAbs(entry) {
		entry = filepath.Join(w.cfg.Dir, entry)
	}
	if f.kind != "" { // a compiled program has no code beside it
		f.below(filepath.Dir(entry))
	}
	w.files = f
	go func() {
		for {
			select {
			case e, ok := <-n.Events:
				if !ok {
					return
				}
				if e.Op&^fsnotify.Chmod != 0 {
					w.post(func() { w.touched(f, e.Name) })
				}
			case _, ok := <-n.Errors:
				if !ok {
					return
				}
			}
		}
	}()
}

// below watches the folders of the entry's own code.
func (f *watch) below(dir string) {
	n := 0
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case !d.IsDir():
			return nil
		case path != dir && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") || d.Name() == "__pycache__"), n >= folderLimit:
			return filepath.SkipDir
		}
		n++
		f.fs.Add(path)
		return nil
	})
}

// touched takes a change of one file. Only what is code counts, and only if it is another one than before.
func (w *wrapper) touched(f *watch, path string) {
	if w.files != f {
		return
	}
	before, measured := f.digests[path]
	if measured && digest(path) == before {
		return
	}
	if !measured && (f.kind == "" || filepath.Ext(path) != f.kind) {
		return
	}
	shown := path
	if rel, err := filepath.Rel(w.cfg.Dir, path); err == nil && !strings.HasPrefix(rel, "..") {
		shown = rel
	}
	f.changed[shown] = true
	if f.due {
		return
	}
	f.due = true
	w.after(buildQuiet, func() {
		f.due = false
		if w.files == f {
			w.built(f)
		}
	})
}

// built tells of a build that ended, and starts the server anew where that was asked for.
func (w *wrapper) built(f *watch) {
	if w.kid == nil && w.cfg.Reload != "restart" {
		return
	}
	lines := []string{}
	for name := range f.changed {
		lines = append(lines, "build changed: "+quote(name))
	}
	slices.Sort(lines)
	clear(f.changed)
	if w.cfg.Reload != "restart" {
		lines = append(lines, "running process unchanged: pid="+strconv.Itoa(w.kid.pid())+" epoch="+w.kid.epoch)
	}
	for _, l := range lines {
		f.said[l] = true
		w.say("%s", l)
	}
	if w.cfg.Reload == "restart" {
		w.reloadSoon(f, time.Now().Add(reloadWait))
	}
}

// reloadSoon reloads when no call is under way, or at the limit.
func (w *wrapper) reloadSoon(f *watch, limit time.Time) {
	busy := false
	for _, r := range w.calls {
		busy = busy || r.sent
	}
	switch {
	case w.files != f:
	case busy && time.Now().Before(limit) || w.starting:
		w.after(reloadLook, func() { w.reloadSoon(f, limit) })
	case w.kid == nil && w.link != nil && w.ending == nil: // it had failed; new code is a new chance
		w.crashes = nil
		w.launch("reload", nil)
	default:
		w.reload()
	}
}

// status writes a line of the gateway's for people, unless we have said the same ourselves.
func (w *wrapper) status(line string) {
	if w.files == nil || !w.files.said[line] {
		w.say("%s", line)
	}
}

func digest(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
