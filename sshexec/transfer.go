package sshexec

import (
	"path"
	"strings"

	"github.com/go-json-experiment/json"
)

// Way is the direction of a transfer.
type Way uint8

const (
	Upload Way = iota + 1 // zero: none
	Download
)

// MaxTransfer bounds a file in either direction.
const MaxTransfer = 1 << 30

// TransferInput is a transfer as asked for. Mode (permission bits) and Size and Digest (SHA-256 in hex, of the bytes to
// be sent) belong to an upload.
type TransferInput struct {
	Way    Way
	Path   string
	Mode   uint32 // 0: 0600
	Size   int64
	Digest string
}

// Transfer is a checked transfer of one file; it never changes.
type Transfer struct{ in TransferInput }

// ParseTransfer checks in: an absolute path of at most 1,024 bytes with no empty, "." or ".." part. Every error is a
// *RequestError invalid_request.
func ParseTransfer(in TransferInput) (Transfer, error) {
	if err := checkRemotePath(in.Path); err != nil {
		return Transfer{}, err
	}
	switch {
	case in.Path == "/":
		return Transfer{}, invalid("path names no file")
	case in.Way == Upload && (in.Mode > 0o777 || in.Size < 0 || in.Size > MaxTransfer || len(in.Digest) != 64):
		return Transfer{}, invalid("mode is 0 to 0777, the file at most %d bytes", MaxTransfer)
	case in.Way == Download && (in.Mode != 0 || in.Size != 0 || in.Digest != ""):
		return Transfer{}, invalid("a download has no mode, size or digest")
	case in.Way != Upload && in.Way != Download:
		return Transfer{}, invalid("neither upload nor download")
	}
	if in.Way == Upload && in.Mode == 0 {
		in.Mode = 0o600
	}
	return Transfer{in}, nil
}

func checkRemotePath(p string) error {
	if err := checkText("path", p); err != nil {
		return err
	}
	if !path.IsAbs(p) || path.Clean(p) != p || len(p) > 1024 || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return invalid("path is not absolute and plain (no empty, . or .. part, no control character)")
	}
	return nil
}

// Path on the host.
func (t Transfer) Path() string { return t.in.Path }

// Mode is an upload's permission bits.
func (t Transfer) Mode() uint32 { return t.in.Mode }

// Size is an upload's length in bytes.
func (t Transfer) Size() int64 { return t.in.Size }

// Digest is an upload's SHA-256 in hex.
func (t Transfer) Digest() string { return t.in.Digest }

// Canonical is the one encoding that a digest is taken over.
func (t Transfer) Canonical() []byte {
	b, err := json.Marshal(t.in, json.Deterministic(true))
	if err != nil {
		return nil // cannot happen: ParseTransfer let only valid UTF-8 in
	}
	return b
}

// part is the upload's name until it is whole: the same bytes for the same place find what an earlier try left.
func (t Transfer) part() string {
	return path.Join(path.Dir(t.in.Path), ".sallyport-"+t.in.Digest[:16]+".part")
}

// MatchTransfer finds the directory rule that covers t, else a *RequestError rule_mismatch.
func (r Rules) MatchTransfer(t Transfer) (Match, error) {
	dirs, word := r.upload, "upload"
	switch t.in.Way {
	case Upload:
	case Download:
		dirs, word = r.download, "download"
	default:
		return Match{}, invalid("no transfer")
	}
	for _, d := range dirs {
		if strings.HasPrefix(t.in.Path, strings.TrimSuffix(d, "/")+"/") {
			return Match{rule: word + " " + d, line: string(t.Canonical())}, nil
		}
	}
	return Match{}, mismatch("no %s rule of this host covers that path", word)
}
