package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// ours knows this program and the sp beside it by their bytes: those two are launchers, whose run they are not.
// A file that was rebuilt is read again, so that an update of sp does not make every call a run of its own.
func ours() func(digest string) bool {
	self, err := os.Executable()
	if err != nil {
		return func(string) bool { return false }
	}
	files := []*program{{path: self}, {path: filepath.Join(filepath.Dir(self), "sp")}}
	return func(digest string) bool {
		for _, f := range files {
			if d := f.digest(); d != "" && d == digest {
				return true
			}
		}
		return false
	}
}

// program is a file and the digest of the bytes it had at stat.
type program struct {
	path string
	mu   sync.Mutex
	stat fs.FileInfo
	sum  string
}

// digest is "sha256:" and hex; empty while the file can't be read.
func (p *program) digest() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, err := os.Stat(p.path)
	if err != nil {
		return ""
	}
	if p.stat != nil && os.SameFile(p.stat, now) && p.stat.Size() == now.Size() && p.stat.ModTime().Equal(now.ModTime()) {
		return p.sum
	}
	f, err := os.Open(p.path)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	p.stat, p.sum = now, "sha256:"+hex.EncodeToString(h.Sum(nil))
	return p.sum
}
