package auditlog

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Sparse files of a folder that somebody sent: zeros for ever, behind the last frame or as a segment of their own, end
// the reading; a segment's honest space behind its frames does not.
func TestVerifySparseFiles(t *testing.T) {
	made, w := newLog(t, testOptions())
	mustAppend(t, w, note1("a"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		segment uint64
		size    int64
		want    string
	}{
		"space behind the last frame": {1, 16 << 20, Intact},
		"zeros behind the last frame": {1, 1 << 42, Broken},
		"a segment of zeros":          {2, 1 << 42, Broken},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(made)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, segmentsFolder, segmentName(c.segment))
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := f.Truncate(c.size); err != nil {
				t.Skip("sparse: the file system has no files of that length: ", err)
			}
			got := make(chan Report, 1)
			go func() { got <- verifyDir(t, dir, VerifyOptions{}) }()
			select {
			case rep := <-got:
				wantVerdict(t, rep, c.want)
				if c.want == Broken && (rep.Kind != tampered || rep.Segment != segmentName(c.segment)) {
					t.Errorf("%+v", rep)
				}
			case <-time.After(time.Minute):
				t.Fatal("still reading zeros")
			}
		})
	}
}
