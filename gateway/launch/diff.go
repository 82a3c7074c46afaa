package launch

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	changesMax = 256 // lines of one diff
	shownMax   = 512 // bytes of a value in a diff
)

// Values of Change.Part.
const (
	PartAdded        = "added"        // the tool is new
	PartRemoved      = "removed"      // the tool is gone
	PartContract     = "contract"     // needs a new approval
	PartPresentation = "presentation" // needs a new look
)

// Change is one difference between two revisions, for people. Old and New are
// JSON, cut after 512 bytes; "" where the field doesn't exist. All of it is the
// server's text: escape it wherever it is shown.
type Change struct {
	Tool, Part string
	Path       string // JSON pointer within the tool; "" for a whole tool
	Old, New   string
}

func (c Change) String() string {
	switch {
	case c.Path == "":
		return fmt.Sprintf("%s: tool %s", c.Tool, c.Part)
	case c.Old == "":
		return fmt.Sprintf("%s: %s: %s added: %s", c.Tool, c.Part, c.Path, c.New)
	case c.New == "":
		return fmt.Sprintf("%s: %s: %s removed: %s", c.Tool, c.Part, c.Path, c.Old)
	}
	return fmt.Sprintf("%s: %s: %s: %s -> %s", c.Tool, c.Part, c.Path, c.Old, c.New)
}

// Diff names what differs between two revisions, tools in the order of their
// names, at most 256 changes.
func Diff(old, new Revision) []Change {
	names := maps.Clone(old.Tools)
	if names == nil {
		names = make(map[string]Tool)
	}
	maps.Copy(names, new.Tools)
	var out []Change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, was := old.Tools[name]
		b, is := new.Tools[name]
		switch {
		case !was:
			out = append(out, Change{Tool: name, Part: PartAdded})
		case !is:
			out = append(out, Change{Tool: name, Part: PartRemoved})
		default:
			if a.Contract != b.Contract {
				out = compare(out, Change{Tool: name, Part: PartContract}, a.ContractDoc, b.ContractDoc)
			}
			if a.Presentation != b.Presentation {
				out = compare(out, Change{Tool: name, Part: PartPresentation}, a.PresentationDoc, b.PresentationDoc)
			}
		}
		if len(out) >= changesMax {
			return out[:changesMax]
		}
	}
	return out
}

// compare adds the differences of two canonical values below at.Path.
func compare(out []Change, at Change, old, new jsontext.Value) []Change {
	if string(old) == string(new) || len(out) >= changesMax {
		return out
	}
	a, aok := members(old)
	b, bok := members(new)
	if !aok || !bok {
		at.Old, at.New = shown(old), shown(new)
		return append(out, at)
	}
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		next := at
		next.Path = string(jsontext.Pointer(at.Path).AppendToken(name))
		out = compare(out, next, a[name], b[name])
	}
	return out
}

func members(v jsontext.Value) (map[string]jsontext.Value, bool) {
	if v.Kind() != '{' {
		return nil, false
	}
	var m map[string]jsontext.Value
	return m, json.Unmarshal(v, &m) == nil
}

func shown(v jsontext.Value) string {
	if len(v) <= shownMax {
		return string(v)
	}
	return clipTo(string(v), shownMax)
}
