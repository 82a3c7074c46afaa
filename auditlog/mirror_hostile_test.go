//go:build unix

package auditlog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A mirror folder that somebody else can write to, full of links: back to the log, out of the folder, to what never
// ends. Nothing is written through them, and the log goes on.
func TestMirrorHostileFolder(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, dir, to, out string) error{
		"folder is a link to the log's": func(t *testing.T, dir, to, out string) error {
			return os.Symlink(filepath.Join(dir, segmentsFolder), filepath.Join(to, segmentsFolder))
		},
		"segment is a link to the live one": func(t *testing.T, dir, to, out string) error {
			return os.Symlink(filepath.Join(dir, segmentsFolder, segmentName(1)), filepath.Join(to, segmentsFolder, segmentName(1)))
		},
		"segment is the live one": func(t *testing.T, dir, to, out string) error {
			return os.Link(filepath.Join(dir, segmentsFolder, segmentName(1)), filepath.Join(to, segmentsFolder, segmentName(1)))
		},
		"segment is a link to nothing yet": func(t *testing.T, dir, to, out string) error {
			return os.Symlink(filepath.Join(out, "planted"), filepath.Join(to, segmentsFolder, segmentName(1)))
		},
		"folder is a link to another": func(t *testing.T, dir, to, out string) error {
			return os.Symlink(out, filepath.Join(to, segmentsFolder))
		},
		"segment is a pipe": func(t *testing.T, dir, to, out string) error {
			return unix.Mkfifo(filepath.Join(to, segmentsFolder, segmentName(1)), 0o600)
		},
		"audit.pub is a pipe": func(t *testing.T, dir, to, out string) error {
			return unix.Mkfifo(filepath.Join(to, pubFile), 0o600)
		},
		"audit.pub never ends": func(t *testing.T, dir, to, out string) error {
			return os.Symlink("/dev/zero", filepath.Join(to, pubFile))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, w := newLog(t, mirrorOptions())
			mustAppend(t, w, note1("a"))
			to, out := t.TempDir(), t.TempDir()
			if !strings.HasPrefix(name, "folder") {
				if err := os.Mkdir(filepath.Join(to, segmentsFolder), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := plant(t, dir, to, out); err != nil {
				t.Fatal(err)
			}
			if err := w.Mirror(to); err != nil {
				t.Fatal(err)
			}
			wantMirrorError(t, w)
			mustAppend(t, w, note1("b"))
			if l, err := os.ReadDir(out); err != nil || len(l) != 0 {
				t.Fatalf("written outside the mirror: %v %v", l, err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			wantVerdict(t, verifyDir(t, dir, VerifyOptions{}), Intact)
		})
	}
}
