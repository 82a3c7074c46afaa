package cli

import (
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// progress shows how far a long reading is, on a terminal; nil where there is none.
func (a *app) progress(what string) func(done, total int64) {
	if !a.errTTY {
		return nil
	}
	const width = 30
	start, shown, last := time.Now(), false, int64(-1)
	return func(done, total int64) {
		if total <= 0 || !shown && (time.Since(start) < time.Second || done >= total) {
			return
		}
		percent := min(done, total) * 100 / total
		if percent == last {
			return
		}
		shown, last = true, percent
		full := int(percent * width / 100)
		fmt.Fprintf(a.err, "\r%s [%s%s] %3d%%", what, strings.Repeat("#", full), strings.Repeat(".", width-full), percent)
		if done >= total {
			fmt.Fprint(a.err, "\r\x1b[K")
		}
	}
}

// metered is segments whose reading moves a bar. Where lines go to the same
// terminal there is none: they show by themselves that it goes on.
func (a *app) metered(segments fs.FS, what string) (in fs.FS, done func()) {
	show := a.progress(what)
	if show == nil || a.outTTY {
		return segments, func() {}
	}
	m := &meter{FS: segments, show: show}
	entries, _ := fs.ReadDir(segments, ".")
	for _, e := range entries {
		if i, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".seg") {
			m.total += i.Size()
		}
	}
	return m, func() { m.show(m.total, m.total) }
}

// meter counts what is read of a folder's files.
type meter struct {
	fs.FS
	show        func(done, total int64)
	read, total int64
}

func (m *meter) Open(name string) (fs.File, error) {
	f, err := m.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, ".seg") {
		return f, err
	}
	return &meteredFile{f, m}, nil
}

func (m *meter) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(m.FS, name) }

type meteredFile struct {
	fs.File
	m *meter
}

func (f *meteredFile) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	f.m.read += int64(n)
	f.m.show(min(f.m.read, f.m.total-1), f.m.total) // its end is the reader's to tell
	return n, err
}
