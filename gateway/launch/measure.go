package launch

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Measurer measures, and remembers the digests of files that did not change
// since. Its zero value is ready; it may be used by many at once. Key is set
// before the first use.
type Measurer struct {
	// Key is under what values of environment variables and files named .env… are
	// hashed (HMAC-SHA-256). Without one, neither is.
	Key []byte

	digests  cache
	versions cache // of runtimes, by their executables
}

// marks is what Changed compares with.
type marks struct {
	measurer *Measurer
	named    map[string]mark // by absolute path
	roots    []string        // of the tree; nil: none, or unpinned
	tree     map[string]mark
}

// Plan says what argv would run in dir with env ("NAME=value"), before it is executed. dir is absolute. Files that can't be
// read are reasons in Unpinned; an error means that there is no command, or no program for it.
func (m *Measurer) Plan(argv []string, dir string, env []string) (Record, error) {
	if !filepath.IsAbs(dir) || !isDir(dir) {
		return Record{}, errors.New("plan launch: the working directory is no absolute path of a folder")
	}
	c := &command{dir: real(dir), env: env, argv: argv}
	if err := c.follow(); err != nil {
		return Record{}, fmt.Errorf("plan launch: %w", err)
	}
	r := Record{LaunchCommand: slices.Clone(argv)}
	m.fill(&r, c)
	return r, nil
}

// fill measures what c found.
func (m *Measurer) fill(r *Record, c *command) {
	r.WorkingDirectory = c.dir
	r.Environment = m.environment(c.env)
	r.Deferred = c.deferred
	r.marks = &marks{measurer: m, named: make(map[string]mark)}
	deadline := budget()
	take := func(path string) Artifact {
		d, _, err := m.digests.digest(path, deadline)
		if err != nil {
			c.unpinned(relative(c.dir, path) + ": " + reason(err))
			return Artifact{relative(c.dir, path), Unpinned}
		}
		r.marks.named[path] = mark{digest: d}
		return Artifact{relative(c.dir, path), d}
	}
	takeAll := func(paths []string) []Artifact {
		out := []Artifact{}
		for _, p := range paths {
			if a := take(p); !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
		return out
	}
	switch {
	case r.Code.ExeDigest != "": // of the running image, which its path may name no more
		r.marks.named[r.Code.Exe] = mark{digest: r.Code.ExeDigest}
		r.Code.Exe = relative(c.dir, r.Code.Exe)
	case c.exe != "":
		a := take(c.exe)
		r.Code.Exe, r.Code.ExeDigest = a.Path, a.Digest
	}
	if c.entry != "" {
		file := real(c.entry) // as its own name may be a link that a launcher made
		a := take(file)
		r.Code.Entry, r.Code.EntryDigest = a.Path, a.Digest
		if m, ok := r.marks.named[file]; ok {
			r.marks.named[c.entry] = m // a link that leads elsewhere is another entry
		}
	}
	locks := c.locks()
	if len(locks) > 0 {
		a := take(locks[0])
		r.Code.Lockfile, r.Code.LockfileDigest = a.Path, a.Digest
		c.files = append(c.files, locks[1:]...)
	}
	r.Code.Files = takeAll(c.files)
	r.Code.Config = takeAll(c.config)
	r.Launchers = append(r.Launchers, takeAll(c.launchers)...)
	m.image(r, c)
	m.tree(r, c, deadline)
	r.Code.Runtime = m.runtime(c)
	slices.Sort(c.reasons)
	r.Unpinned = slices.Compact(c.reasons)
	if r.Unpinned == nil {
		r.Unpinned = []string{}
	}
}

// tree measures the trees, or says why it can't.
func (m *Measurer) tree(r *Record, c *command, deadline time.Time) {
	roots, shared := c.trees()
	if shared {
		r.Code.TreeDigest = Unpinned
		c.unpinned("tree: the entry lies in a folder of many programs")
		return
	}
	if len(roots) == 0 {
		return
	}
	t := &tree{cache: &m.digests, key: m.Key, deadline: deadline}
	err := t.walk(roots)
	if errors.Is(err, errChanging) {
		err = t.walk(roots)
	}
	if err != nil {
		r.Code.TreeDigest = Unpinned
		c.unpinned("tree: " + reason(err))
		return
	}
	var unreadable int
	r.Code.TreeDigest, unreadable = t.digest(c.dir)
	if unreadable > 0 {
		c.unpinned(fmt.Sprintf("tree: %d files or folders can't be read", unreadable))
	}
	r.marks.roots, r.marks.tree = roots, t.files
}

// image reads the digest that an image is named by.
func (m *Measurer) image(r *Record, c *command) {
	if c.image == "" {
		return
	}
	r.Code.Image = c.image
	_, digest, ok := strings.Cut(c.image, "@")
	if b, err := hex.DecodeString(strings.TrimPrefix(digest, "sha256:")); ok && err == nil && len(b) == sha256.Size && strings.HasPrefix(digest, "sha256:") {
		r.Code.ImageDigest = digest
		return
	}
	r.Code.ImageDigest = Unpinned
	c.unpinned("image " + clip(c.image) + " is named by a tag")
}

// environment hashes each variable with its name, so that equal values of two
// variables don't show.
func (m *Measurer) environment(env []string) []Variable {
	out := make([]Variable, 0, len(env))
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		v := Variable{Name: name}
		if m.Key != nil {
			h := hmac.New(sha256.New, m.Key)
			h.Write([]byte(name))
			h.Write([]byte{0})
			h.Write([]byte(value))
			v.Hash = "hmac-sha256:" + hex.EncodeToString(h.Sum(nil))
		}
		out = append(out, v)
	}
	slices.SortStableFunc(out, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// reason is an error as a person reads it, without a path.
func reason(err error) string {
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return e.Error()
	}
	return err.Error()
}

// budget is when a measurement that begins now is over.
func budget() time.Time { return time.Now().Add(treeTime) }
