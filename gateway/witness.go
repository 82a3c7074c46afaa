package gateway

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"sallyport/auditlog"
	"sallyport/gateway/api"
)

// A witness (C2SP tlog-witness) holds no log: it remembers the largest tree it saw of an origin, and cosigns a checkpoint
// only if a proof shows that nothing before it was changed. With its cosignature a checkpoint shows that the log was not
// cut or rewritten since, even to somebody who trusts this machine in nothing.

// witnessLimit bounds one round with all witnesses.
const witnessLimit = 10 * time.Second

// witness is one of them and what it last did.
type witness struct {
	line   string // as in the settings
	url    string
	key    cosigner
	shown  api.Witness
	cosigs []byte // its signature lines under the checkpoint of shown.Size
}

type witnesses struct {
	turn sync.Mutex // one round at a time
	mu   sync.Mutex
	list []*witness
}

// parseWitness reads "URL VERIFIER-KEY".
func parseWitness(line string) (*witness, error) {
	at, key, ok := strings.Cut(line, " ")
	if !ok {
		return nil, errors.New("want URL and verifier key, with one space between")
	}
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(u.Path, "/") {
		return nil, errors.New("the URL is not the plain one of a witness: no user, query, fragment or slash at its end")
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme != "https" && !(u.Scheme == "http" && ip != nil && ip.IsLoopback()) {
		return nil, errors.New("the URL must be https, or http on loopback")
	}
	k, err := parseCosigner(key)
	if err != nil {
		return nil, err
	}
	return &witness{line: line, url: u.String(), key: k, shown: api.Witness{URL: u.String(), Name: k.name}}, nil
}

// set takes the sealed setting; witnesses that stay keep what they did. Lines were checked when they were set.
func (s *witnesses) set(lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var next []*witness
	for _, line := range lines {
		if i := slices.IndexFunc(s.list, func(w *witness) bool { return w.line == line }); i >= 0 {
			next = append(next, s.list[i])
		} else if w, err := parseWitness(line); err == nil {
			next = append(next, w)
		}
	}
	s.list = next
}

func (s *witnesses) show() []api.Witness {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []api.Witness{}
	for _, w := range s.list {
		out = append(out, w.shown)
	}
	return out
}

// witnessed shows the log's head to its witnesses, if it grew.
func (g *Gateway) witnessed(ctx context.Context) error {
	if !g.open.Load() || len(g.witnesses.show()) == 0 {
		return nil
	}
	cp, err := g.checkpoint(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, witnessLimit)
	defer cancel()
	g.witnesses.cosign(ctx, g.log.w.Load(), cp)
	return nil
}

// cosign asks every witness, side by side, and returns the signature lines of those that vouch for this checkpoint.
func (s *witnesses) cosign(ctx context.Context, w *auditlog.Writer, checkpoint []byte) []byte {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	list := slices.Clone(s.list)
	s.mu.Unlock()
	size, err := treeSize(checkpoint)
	if err != nil {
		return nil
	}
	var all sync.WaitGroup
	for _, x := range list {
		all.Go(func() {
			if x.shown.Size == size && x.shown.Error == "" {
				return
			}
			lines, err := x.ask(ctx, w, checkpoint, size)
			s.mu.Lock()
			defer s.mu.Unlock()
			if err != nil {
				x.shown.Error, x.cosigs = err.Error(), nil
				return
			}
			x.shown, x.cosigs = api.Witness{URL: x.url, Name: x.key.name, Size: size, At: now().Wall}, lines
		})
	}
	all.Wait()
	var out []byte
	for _, x := range list {
		out = append(out, x.cosigs...)
	}
	return out
}

// treeSize is a checkpoint's second line.
func treeSize(checkpoint []byte) (int64, error) {
	lines := strings.SplitN(string(checkpoint), "\n", 3)
	if len(lines) < 3 {
		return 0, errors.New("no checkpoint")
	}
	return strconv.ParseInt(lines[1], 10, 64)
}

// ask submits a checkpoint; the witness may say once that it knows another tree than we thought.
func (x *witness) ask(ctx context.Context, w *auditlog.Writer, checkpoint []byte, size int64) ([]byte, error) {
	old := x.shown.Size
	for range 2 {
		if old > size {
			return nil, fmt.Errorf("the witness has seen %d commits, this log has %d: it was cut or put back", old, size)
		}
		body, err := submission(w, old, size, checkpoint)
		if err != nil {
			return nil, err
		}
		lines, known, err := x.post(ctx, body)
		if err != nil {
			return nil, err
		}
		if lines != nil {
			return x.own(checkpoint, lines)
		}
		old = known
	}
	return nil, errors.New("the witness keeps changing its mind about the tree it knows")
}

// submission is the body of add-checkpoint: old size, consistency proof, checkpoint.
func submission(w *auditlog.Writer, old, size int64, checkpoint []byte) ([]byte, error) {
	var proof tlog.TreeProof
	if old > 0 && old < size {
		var err error
		if proof, err = w.ProveTo(old, size); err != nil {
			return nil, fmt.Errorf("prove consistency: %w", err)
		}
	}
	b := fmt.Appendf(nil, "old %d\n", old)
	for _, h := range proof {
		b = fmt.Appendf(b, "%s\n", base64.StdEncoding.EncodeToString(h[:]))
	}
	return append(append(b, '\n'), checkpoint...), nil
}

// post returns the signature lines, or (409) the size that the witness knows. It follows no redirect, uses no proxy and
// keeps nothing.
func (x *witness) post(ctx context.Context, body []byte) (lines []byte, known int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.url+"/add-checkpoint", bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, 0, errors.New("the witness could not be reached")
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 16<<10))
	switch {
	case err != nil:
		return nil, 0, errors.New("the witness's answer ended early")
	case res.StatusCode == http.StatusOK:
		return answer, 0, nil
	case res.StatusCode == http.StatusConflict && res.Header.Get("Content-Type") == "text/x.tlog.size":
		known, err = strconv.ParseInt(strings.TrimSpace(string(answer)), 10, 64)
		if err != nil || known < 0 {
			return nil, 0, errors.New("the witness names no tree size")
		}
		return nil, known, nil
	}
	return nil, 0, fmt.Errorf("the witness answered %d", res.StatusCode)
}

// own returns those of the lines that are this witness's good cosignature of the checkpoint.
func (x *witness) own(checkpoint, lines []byte) ([]byte, error) {
	n, err := note.Open(append(slices.Clone(checkpoint), lines...), note.VerifierList(x.key))
	if err != nil || len(n.Sigs) != 1 {
		return nil, errors.New("the witness's answer holds no cosignature of it")
	}
	s := n.Sigs[0]
	return fmt.Appendf(nil, "\u2014 %s %s\n", s.Name, s.Base64), nil
}

// cosigner is a note.Verifier of a witness: an Ed25519 key whose signatures carry a time (C2SP tlog-cosignature, cosignature/v1).
type cosigner struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

const algCosignature = 0x04

// parseCosigner reads a verifier key "name+hash+base64(0x04 | public key)".
func parseCosigner(vkey string) (cosigner, error) {
	bad := errors.New("the verifier key is not that of a witness: name+hash+base64, of type cosignature/v1")
	parts := strings.SplitN(vkey, "+", 3)
	if len(parts) != 3 || parts[0] == "" {
		return cosigner{}, bad
	}
	raw, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(raw) != 1+ed25519.PublicKeySize || raw[0] != algCosignature || base64.StdEncoding.EncodeToString(raw) != parts[2] {
		return cosigner{}, bad
	}
	sum := sha256.Sum256(append([]byte(parts[0]+"\n"), raw...))
	k := cosigner{parts[0], binary.BigEndian.Uint32(sum[:4]), raw[1:]}
	if fmt.Sprintf("%08x", k.hash) != parts[1] {
		return cosigner{}, bad
	}
	return k, nil
}

func (k cosigner) Name() string    { return k.name }
func (k cosigner) KeyHash() uint32 { return k.hash }

// Verify checks time (8 bytes, big endian) and signature over "cosignature/v1", the time and the note's text.
func (k cosigner) Verify(msg, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	signed := fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", binary.BigEndian.Uint64(sig), msg)
	return ed25519.Verify(k.key, signed, sig[8:])
}

func (g *Gateway) opWitnessList(r opRequest) (any, error) {
	if err := g.ready(); err != nil {
		return nil, err
	}
	return g.witnesses.show(), nil
}

func (g *Gateway) opWitnessAdd(r opRequest) (any, error) {
	var a api.WitnessArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	line := a.URL + " " + a.Key
	w, err := parseWitness(line)
	if err != nil {
		return nil, api.Fail("invalid_request", "witness: "+err.Error())
	}
	return g.changeWitnesses(r, func(lines []string) ([]string, error) {
		if slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, w.url+" ") }) {
			return nil, api.Fail("exists", "")
		}
		return append(lines, w.url+" "+a.Key), nil
	})
}

func (g *Gateway) opWitnessRemove(r opRequest) (any, error) {
	var a api.URLArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	return g.changeWitnesses(r, func(lines []string) ([]string, error) {
		left := slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, a.URL+" ") })
		if len(left) == len(lines) {
			return nil, api.Fail("not_found", "no witness of this URL")
		}
		return left, nil
	})
}

// changeWitnesses changes the one setting, and asks the witnesses at once, so that a wrong URL shows.
func (g *Gateway) changeWitnesses(r opRequest, change func([]string) ([]string, error)) (any, error) {
	if err := g.setWitnesses(r, change); err != nil {
		return nil, err
	}
	err := g.witnessed(r.ctx)
	return g.witnesses.show(), err
}

func (g *Gateway) setWitnesses(r opRequest, change func([]string) ([]string, error)) error {
	g.authority.Lock()
	defer g.authority.Unlock()
	snap, err := g.contents()
	if err != nil {
		return err
	}
	was, err := readSettings(snap)
	if err != nil {
		return err
	}
	next := was
	if next.Witness, err = change(slices.Clone(was.Witness)); err != nil {
		return err
	}
	return g.applySettings(r.ctx, was, next, r.who)
}
