package launch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	catalogMax = 16 << 20 // bytes of all pages
	toolsMax   = 4096
	pagesMax   = 1024
	depthMax   = 64 // of JSON
)

// Revision is what a server's tools claim to be. The zero value is no catalog at
// all, not an empty one.
type Revision struct {
	// ID is "sha256:…" over both fingerprints of each tool, in the order of names.
	ID    string
	Tools map[string]Tool
}

// Tool is one tool with its two fingerprints, each the SHA-256 of its document.
//
// The contract is what a caller and an approver rely on: name, inputSchema,
// outputSchema, and every member that this package does not know. The
// presentation is title, description, annotations, icons and _meta. Annotations
// are hints: no decision reads them.
type Tool struct {
	Contract     [32]byte
	Presentation [32]byte
	// Defaults are the values that the server declares for fields a caller may leave
	// out, by name ("target", "options.depth"). They are its claim: what it does with
	// a field left out is its own affair. See Omitted.
	Defaults map[string]jsontext.Value
	// The two documents, canonical: RFC 8785, except that integers keep their digits,
	// so that two schemas that differ beyond 2^53 are never one.
	ContractDoc     jsontext.Value
	PresentationDoc jsontext.Value
}

// ContractID is the contract's fingerprint as text.
func (t Tool) ContractID() string { return "sha256:" + hex.EncodeToString(t.Contract[:]) }

// PresentationID is the presentation's fingerprint as text.
func (t Tool) PresentationID() string { return "sha256:" + hex.EncodeToString(t.Presentation[:]) }

// presentation is the members that only show a tool.
var presentation = []string{"title", "description", "annotations", "icons", "_meta"}

// Catalog fingerprints all pages of a tools/list, in order: each the result
// object of one answer. It refuses what two readers could read differently
// (duplicate members, bad UTF-8, a tool twice) and a list that isn't finished.
func Catalog(pages [][]byte) (Revision, error) {
	if len(pages) == 0 || len(pages) > pagesMax {
		return Revision{}, fmt.Errorf("read catalog: %d pages, want 1 to %d", len(pages), pagesMax)
	}
	r := Revision{Tools: make(map[string]Tool)}
	size := 0
	for i, page := range pages {
		if size += len(page); size > catalogMax {
			return Revision{}, fmt.Errorf("read catalog: more than %d MiB", catalogMax>>20)
		}
		more, err := r.page(page)
		if err == nil && more != (i < len(pages)-1) {
			err = errors.New("the list has another number of pages")
		}
		if err != nil {
			return Revision{}, fmt.Errorf("read catalog: page %d: %w", i+1, err)
		}
	}
	r.ID = r.id()
	return r, nil
}

// page adds a page's tools, and says whether another one follows.
func (r Revision) page(b []byte) (more bool, err error) {
	if err := shallow(b); err != nil {
		return false, err
	}
	var p struct {
		Tools      []map[string]jsontext.Value `json:"tools"`
		NextCursor string                      `json:"nextCursor"`
	}
	var shape struct {
		Tools jsontext.Value `json:"tools"`
	}
	if err := json.Unmarshal(b, &shape); err != nil || shape.Tools.Kind() != '[' {
		return false, errors.New("no list of tools")
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return false, errors.New("not the result of a tools/list")
	}
	for _, members := range p.Tools {
		name, t, err := newTool(members)
		if err != nil {
			return false, err
		}
		if _, twice := r.Tools[name]; twice {
			return false, fmt.Errorf("tool %q twice", clip(name))
		}
		if r.Tools[name] = t; len(r.Tools) > toolsMax {
			return false, fmt.Errorf("more than %d tools", toolsMax)
		}
	}
	return p.NextCursor != "", nil
}

func newTool(members map[string]jsontext.Value) (name string, t Tool, err error) {
	if err := json.Unmarshal(members["name"], &name); err != nil || name == "" || members["name"].Kind() != '"' {
		return "", Tool{}, errors.New("a tool without a name")
	}
	contract, shown := make(map[string]jsontext.Value), make(map[string]jsontext.Value)
	for k, v := range members {
		if slices.Contains(presentation, k) {
			shown[k] = v
		} else {
			contract[k] = v
		}
	}
	if t.ContractDoc, err = canonical(contract); err != nil {
		return "", Tool{}, fmt.Errorf("tool %q: %w", clip(name), err)
	}
	if t.PresentationDoc, err = canonical(shown); err != nil {
		return "", Tool{}, fmt.Errorf("tool %q: %w", clip(name), err)
	}
	t.Contract, t.Presentation = sha256.Sum256(t.ContractDoc), sha256.Sum256(t.PresentationDoc)
	t.Defaults = defaults(members["inputSchema"])
	return name, t, nil
}

// canonical renders members by RFC 8785 with integers as they were written.
func canonical(members map[string]jsontext.Value) (jsontext.Value, error) {
	b, err := json.Marshal(members)
	if err != nil {
		return nil, errors.New("not JSON")
	}
	v := jsontext.Value(b)
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return nil, errors.New("not JSON")
	}
	return v, nil
}

// id hashes the tools' fingerprints in the order of their names. Names are JSON
// strings in the contract already, so nothing here needs quoting.
func (r Revision) id() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(r.Tools)) {
		t := r.Tools[name]
		h.Write(t.Contract[:])
		h.Write(t.Presentation[:])
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// shallow refuses a document nested deeper than depthMax, before anything
// recurses into it.
func shallow(b []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(b))
	for {
		t, err := d.ReadToken()
		if err != nil {
			if d.InputOffset() > 0 && d.StackDepth() == 0 && errors.Is(err, io.EOF) {
				return nil
			}
			return errors.New("not one JSON document")
		}
		if k := t.Kind(); (k == '{' || k == '[') && d.StackDepth() > depthMax {
			return fmt.Errorf("nested deeper than %d", depthMax)
		}
	}
}

// clip bounds a name that is shown in an error.
func clip(s string) string { return clipTo(s, 128) }

func clipTo(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
