package cli

import (
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// progress shows how far a long reading is, on a terminal; show is nil where there
// is none. end takes away what was shown, whatever became of the reading.
func (a *app) progress(what string) (show func(done, total int64), end func()) {
	if !a.errTTY {
		return nil, func() {}
	}
	const width = 30
	start, last := a.now(), int64(-1)
	show = func(done, total int64) {
		if total <= 0 || a.now().Sub(start) < time.Second {
			return
		}
		percent := min(done, total) * 100 / total
		if percent == last {
			return
		}
		last = percent
		full := int(percent * width / 100)
		fmt.Fprintf(a.err, "\r%s [%s%s] %3d%%", what, strings.Repeat("#", full), strings.Repeat(".", width-full), percent)
	}
	return show, func() {
		if last >= 0 {
			fmt.Fprint(a.err, "\r\x1b[K")
		}
	}
}

// metered is segments whose reading moves a bar. Where lines go to the same
// terminal there is none: they show by themselves that it goes on.
func (a *app) metered(segments fs.FS, what string) (in fs.FS, end func()) {
	if a.outTTY {
		return segments, func() {}
	}
	show, end := a.progress(what)
	if show == nil {
		return segments, end
	}
	m := &meter{FS: segments, show: show}
	entries, _ := fs.ReadDir(segments, ".")
	for _, e := range entries {
		if i, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".seg") {
			m.total += i.Size()
		}
	}
	return m, end
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
	f.m.show(f.m.read, f.m.total)
	return n, err
}
