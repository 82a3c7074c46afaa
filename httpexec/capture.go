package httpexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// FieldCapture is the prefix of the fields that captured tokens are kept in; the pointer follows.
const FieldCapture = "capture"

func (s Spec) checkCapture() error {
	for i, p := range s.Capture {
		if !jsontext.Pointer(p).IsValid() || len(p) < 2 || len(p) > 128 || strings.IndexFunc(p, control) >= 0 {
			return fmt.Errorf("capture[%d]: write a JSON pointer like /access_token", i)
		}
		if slices.Contains(s.Capture[:i], p) {
			return fmt.Errorf("capture[%d]: written twice", i)
		}
	}
	return nil
}

// capture moves minted tokens out of an answer: each is kept, durably, before the answer goes on with a reference in its
// place, and is masked wherever else it stands.
type capture struct {
	pointers []string
	in       Injection
	ctx      context.Context
}

// maxMint bounds an answer that tokens are taken out of, in bytes.
const maxMint = 1 << 20

var errCapture = errors.New("the answer can't be searched for the tokens to be captured")

// move reads the whole body, and returns it with references.
func (c *capture) move(body io.Reader, mask func([]byte)) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(body, maxMint+1))
	defer clear(b)
	if err != nil || len(b) > maxMint {
		return nil, errCapture
	}
	found := map[string]string{}
	out, err := c.replace(b, found)
	if err != nil {
		return nil, errCapture
	}
	for _, p := range c.pointers { // in their order, so that what is kept doesn't hang on a map's
		v, ok := found[p]
		if !ok {
			continue
		}
		if len(v) < minSecret || len(v) > maxSecret {
			return nil, errors.New("a token to be captured is too short to be masked, or too long")
		}
		mask([]byte(v))
		if err := c.in.Keep.Keep(context.WithoutCancel(c.ctx), FieldCapture+p, []byte(v)); err != nil {
			return nil, errors.New("a captured token could not be kept")
		}
	}
	return out, nil
}

// replace copies a JSON document token by token; numbers and order stay as they are.
func (c *capture) replace(b []byte, found map[string]string) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(b))
	var out bytes.Buffer
	e := jsontext.NewEncoder(&out)
	for {
		t, err := d.ReadToken()
		if err == io.EOF {
			return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
		}
		if err != nil {
			return nil, err
		}
		p := string(d.StackPointer())
		kind, n := d.StackIndex(d.StackDepth())
		name := kind == '{' && n%2 == 1
		if !name && slices.Contains(c.pointers, p) {
			switch t.Kind() {
			case '"':
				found[p] = t.String()
				t = jsontext.String("captured:" + c.in.Credential + ":" + p)
			case 'n':
			default:
				return nil, errCapture // a token that is no string can't be masked
			}
		}
		if err := e.WriteToken(t); err != nil {
			return nil, err
		}
	}
}
