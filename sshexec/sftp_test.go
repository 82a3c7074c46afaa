package sshexec_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"sallyport/sshexec"
)

type sftpBed struct {
	*sshd
	dir string // where files may go
}

func newSFTPBed(t *testing.T) *sftpBed {
	t.Helper()
	s := startSSHD(t, nil, "")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &sftpBed{s, filepath.Join(dir, "in")}
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	spec, err := json.Marshal(sshexec.RuleSpec{AllowUpload: []string{b.dir}, AllowDownload: []string{b.dir}})
	if err != nil {
		t.Fatal(err)
	}
	if b.rules, err = sshexec.ParseRules(spec); err != nil {
		t.Fatal(err)
	}
	return b
}

func upload(path string, body []byte, mode uint32) sshexec.TransferInput {
	sum := sha256.Sum256(body)
	return sshexec.TransferInput{Way: sshexec.Upload, Path: path, Mode: mode, Size: int64(len(body)), Digest: hex.EncodeToString(sum[:])}
}

func (b *sftpBed) transfer(ctx context.Context, t *testing.T, in sshexec.TransferInput, from io.ReaderAt, to io.Writer, progress func(int64)) (sshexec.Result, error) {
	t.Helper()
	x, err := sshexec.ParseTransfer(in)
	if err != nil {
		t.Fatal(err)
	}
	m, err := b.rules.MatchTransfer(x)
	if err != nil {
		t.Fatal(err)
	}
	c := b.dial(t)
	defer b.pool.Put(c)
	if in.Way == sshexec.Upload {
		return c.Put(ctx, x, m, from, progress)
	}
	return c.Get(ctx, x, m, to, progress)
}

// There and back, with mode and progress, over what lay there.
func TestSFTP(t *testing.T) {
	b := newSFTPBed(t)
	path := filepath.Join(b.dir, "file with spaces")
	for _, size := range []int{0, 1, 5 << 20, 100} {
		body := bytes.Repeat([]byte{byte(size)}, size)
		var told int64
		r, err := b.transfer(t.Context(), t, upload(path, body, 0o640), bytes.NewReader(body), nil, func(n int64) { told = n })
		if err != nil || r.Outcome != sshexec.Confirmed || told != int64(size) {
			t.Fatalf("%d bytes: %+v %v, told %d", size, r, err, told)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o640 || info.Size() != int64(size) {
			t.Errorf("%v %v", info, err)
		}
		var got bytes.Buffer
		r, err = b.transfer(t.Context(), t, sshexec.TransferInput{Way: sshexec.Download, Path: path}, nil, &got, nil)
		if err != nil || r.Outcome != sshexec.Confirmed || !bytes.Equal(got.Bytes(), body) {
			t.Errorf("download: %+v %v, %d bytes", r, err, got.Len())
		}
	}
	if left, _ := filepath.Glob(filepath.Join(b.dir, ".sallyport-*")); len(left) != 0 {
		t.Errorf("left %q", left)
	}
	r, err := b.transfer(t.Context(), t, sshexec.TransferInput{Way: sshexec.Download, Path: b.dir + "/nowhere"}, nil, io.Discard, nil)
	if err != nil || r.Outcome != sshexec.FailedRemote || !strings.Contains(r.Detail, "no such file") {
		t.Errorf("%+v %v", r, err)
	}
	r, err = b.transfer(t.Context(), t, sshexec.TransferInput{Way: sshexec.Download, Path: path}, nil, fullWriter{}, nil)
	if err == nil || r.Outcome != sshexec.FailedRemote {
		t.Errorf("a full disk here: %+v %v", r, err)
	}
}

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// S16: symbolic links on the way and at the end.
func TestSFTPLinks(t *testing.T) {
	b := newSFTPBed(t)
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"dir": outside, "file": secret, "loop": "loop", "fifo": ""} {
		p := filepath.Join(b.dir, link)
		if to == "" {
			if err := os.Mkdir(p, 0o700); err != nil {
				t.Fatal(err)
			}
		} else if err := os.Symlink(to, p); err != nil {
			t.Fatal(err)
		}
	}
	body := []byte("after")
	for _, p := range []string{"dir/secret", "dir/new", "file", "loop", "fifo"} {
		for _, in := range []sshexec.TransferInput{upload(filepath.Join(b.dir, p), body, 0), {Way: sshexec.Download, Path: filepath.Join(b.dir, p)}} {
			var got bytes.Buffer
			r, err := b.transfer(t.Context(), t, in, bytes.NewReader(body), &got, nil)
			if err != nil || r.Outcome != sshexec.Denied || got.Len() > 0 {
				t.Errorf("%s %d: %+v %v %q", p, in.Way, r, err, got.String())
			}
		}
	}
	if got, _ := os.ReadFile(secret); string(got) != "before" {
		t.Errorf("the file outside is %q", got)
	}
	if left, _ := os.ReadDir(outside); len(left) != 1 {
		t.Errorf("%v", left)
	}
}

// S16: cut in mid upload, the file is as before; the next try takes up what is there, unless it is something else.
func TestSFTPCut(t *testing.T) {
	b := newSFTPBed(t)
	path := filepath.Join(b.dir, "f")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 8<<20)
	for i := range body {
		body[i] = byte(i * 7 >> 3)
	}
	in := upload(path, body, 0o600)
	r, err := b.transfer(t.Context(), t, in, bytes.NewReader(body), nil, func(n int64) {
		if n > 3<<20 {
			b.pool.Drop(func(sshexec.PoolKey) bool { return true })
		}
	})
	if err != nil || r.Outcome != sshexec.FailedRemote || !strings.Contains(r.Detail, "unchanged") {
		t.Fatalf("%+v %v", r, err)
	}
	if got, _ := os.ReadFile(path); string(got) != "before" {
		t.Fatalf("the file changed, %d bytes", len(got))
	}
	part := filepath.Join(b.dir, ".sallyport-"+in.Digest[:16]+".part")
	was, err := os.Stat(part)
	if err != nil || was.Size() == 0 {
		t.Fatalf("%v %v", was, err)
	}
	var first int64 = -1
	r, err = b.transfer(t.Context(), t, in, bytes.NewReader(body), nil, func(n int64) {
		if first < 0 {
			first = n
		}
	})
	if got, _ := os.ReadFile(path); err != nil || r.Outcome != sshexec.Confirmed || !bytes.Equal(got, body) {
		t.Fatalf("%+v %v, %d bytes", r, err, len(got))
	}
	if err := os.WriteFile(part, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err = b.transfer(t.Context(), t, in, bytes.NewReader(body), nil, nil)
	if got, _ := os.ReadFile(path); err != nil || r.Outcome != sshexec.Confirmed || !bytes.Equal(got, body) {
		t.Errorf("over a foreign part: %+v %v, %d bytes", r, err, len(got))
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err = b.transfer(ctx, t, upload(path, body[1:], 0), bytes.NewReader(body[1:]), nil, func(int64) { cancel() })
	if err != nil || r.Outcome != sshexec.FailedRemote || r.Reason != "cancelled" {
		t.Errorf("cancelled: %+v %v", r, err)
	}
	r, err = b.transfer(t.Context(), t, upload(path, body[2:], 0), brokenReader{}, nil, nil)
	if err == nil || r.Outcome != sshexec.FailedRemote {
		t.Errorf("a source that fails: %+v %v", r, err)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, body) {
		t.Errorf("the file changed")
	}
}

type brokenReader struct{}

func (brokenReader) ReadAt([]byte, int64) (int, error) { return 0, errors.New("read fault") }

func TestTransferRules(t *testing.T) {
	rules, err := sshexec.ParseRules([]byte(`{"allowUpload":["/srv/in"],"allowDownload":["/"]}`))
	if err != nil {
		t.Fatal(err)
	}
	sum := strings.Repeat("0", 64)
	for path, ok := range map[string]bool{"/srv/in/a": true, "/srv/in/b/c": true, "/srv/in": false, "/srv/inside/a": false, "/etc/passwd": false} {
		x, err := sshexec.ParseTransfer(sshexec.TransferInput{Way: sshexec.Upload, Path: path, Digest: sum})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rules.MatchTransfer(x); (err == nil) != ok {
			t.Errorf("upload %s: %v", path, err)
		}
		x, err = sshexec.ParseTransfer(sshexec.TransferInput{Way: sshexec.Download, Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rules.MatchTransfer(x); err != nil {
			t.Errorf("download %s: %v", path, err)
		}
	}
	for _, path := range []string{"", "a", "/", "/a/", "/a//b", "/a/../b", "/a/.", "/a\x00", "/a\n", "/\xff", "/" + strings.Repeat("a", 1024)} {
		if _, err := sshexec.ParseTransfer(sshexec.TransferInput{Way: sshexec.Download, Path: path}); err == nil {
			t.Errorf("%q was taken", path)
		}
	}
	for _, in := range []sshexec.TransferInput{{Way: sshexec.Upload, Path: "/a", Mode: 0o4755, Digest: sum}, {Way: sshexec.Upload, Path: "/a", Size: -1, Digest: sum},
		{Way: sshexec.Upload, Path: "/a"}, {Path: "/a"}, {Way: sshexec.Download, Path: "/a", Mode: 1}, {Way: sshexec.Upload, Path: "/a", Size: sshexec.MaxTransfer + 1, Digest: sum}} {
		if _, err := sshexec.ParseTransfer(in); err == nil {
			t.Errorf("%+v was taken", in)
		}
	}
	if got := fmt.Sprint(rules.Strings()); got != "[download / upload /srv/in]" {
		t.Error(got)
	}
}
