package launch

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Changed names the artifacts whose bytes differ from the record now, files that
// came or went in the trees among them: relative to WorkingDirectory where they
// lie below it, sorted. A file that can't be read any more has changed.
//
// It looks at every file's stamp and reads only those that differ from what the
// Measurer remembers: 10 to 50 µs a file. That is no check for every call. A record that went through JSON knows the files that it
// names, not those of its trees. An error means that the trees could not be
// walked within their limits.
func (r Record) Changed() ([]string, error) {
	if r.marks == nil {
		return r.namedChanged(), nil
	}
	changed := make(map[string]bool)
	c := &r.marks.measurer.digests
	deadline := budget()
	for path, m := range r.marks.named {
		if d, _, err := c.digest(path, deadline); err != nil || d != m.digest {
			changed[path] = true
		}
	}
	err := r.treeChanged(changed, deadline)
	out := slices.Collect(maps.Keys(changed))
	for i := range out {
		out[i] = relative(r.WorkingDirectory, out[i])
	}
	slices.Sort(out)
	return out, err
}

// treeChanged walks the trees again; what did not change comes from memory.
func (r Record) treeChanged(changed map[string]bool, deadline time.Time) error {
	if r.marks.roots == nil {
		return nil
	}
	t := &tree{cache: &r.marks.measurer.digests, key: r.marks.measurer.Key, deadline: deadline}
	err := t.walk(r.marks.roots)
	if errors.Is(err, errChanging) {
		err = t.walk(r.marks.roots)
	}
	if err != nil {
		return fmt.Errorf("walk trees: %w", err)
	}
	for path, was := range r.marks.tree {
		if is, ok := t.files[path]; !ok || is.digest != was.digest || is.link != was.link {
			changed[path] = true
		}
	}
	for path := range t.files {
		if _, ok := r.marks.tree[path]; !ok {
			changed[path] = true
		}
	}
	return nil
}

// namedChanged compares what the record names.
func (r Record) namedChanged() (out []string) {
	var c cache
	deadline := budget()
	for line := range strings.Lines(r.Sums()) {
		want, path, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		full := path
		if !filepath.IsAbs(path) {
			full = filepath.Join(r.WorkingDirectory, path)
		}
		if d, _, err := c.digest(full, deadline); err != nil || d != "sha256:"+want {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// fileSize is what a file that is remembered takes, in bytes, roughly: its path, its stamp and its digest.
const fileSize = 256

// Size is what a record takes in memory, in bytes, roughly.
func (r Record) Size() (n int) {
	for _, w := range r.LaunchCommand {
		n += len(w)
	}
	for _, v := range r.Environment {
		n += len(v.Name) + len(v.Hash)
	}
	if r.marks != nil {
		n += fileSize * (len(r.marks.named) + len(r.marks.tree))
	}
	return n
}
