package launch

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	refsMax     = 16   // references followed for one field
	fieldsMax   = 4096 // fields looked at in one schema, so that references can't multiply
	defaultsMax = 256  // declared values kept for one tool
)

// schema is what we read of a JSON Schema; everything else is fingerprinted only.
type schema struct {
	Ref        string                    `json:"$ref"`
	Default    jsontext.Value            `json:"default"`
	Properties map[string]jsontext.Value `json:"properties"`
}

// walker looks for declared defaults.
type walker struct {
	root   jsontext.Value
	fields int
	found  map[string]jsontext.Value
}

// defaults are all declared defaults below an input schema, by dotted name.
func defaults(input jsontext.Value) map[string]jsontext.Value {
	w := walker{root: input, found: make(map[string]jsontext.Value)}
	w.walk(input, "", nil, true)
	return w.found
}

// Omitted are the declared defaults of the fields that args, the arguments of a
// call, leaves out. A card shows them as the server's claim.
func (t Tool) Omitted(args []byte) map[string]jsontext.Value {
	var doc struct {
		Input jsontext.Value `json:"inputSchema"`
	}
	if json.Unmarshal(t.ContractDoc, &doc) != nil {
		return nil
	}
	w := walker{root: doc.Input, found: make(map[string]jsontext.Value)}
	w.walk(doc.Input, "", args, false)
	return w.found
}

// walk visits the properties of one object. all: whatever is declared, else only
// what args lacks, and below that only objects that args has.
func (w *walker) walk(at jsontext.Value, prefix string, args jsontext.Value, all bool) {
	if strings.Count(prefix, ".") > depthMax {
		return
	}
	s := w.read(at)
	var given map[string]jsontext.Value
	if json.Unmarshal(args, &given) != nil {
		given = nil // no object: it has no fields
	}
	for name, sub := range s.Properties {
		if w.fields++; w.fields > fieldsMax || len(w.found) >= defaultsMax {
			return
		}
		value, present := given[name]
		if all || !present {
			if d := w.read(sub).Default; d != nil {
				w.found[prefix+name] = d
			}
		}
		if all || present {
			w.walk(sub, prefix+name+".", value, all)
		}
	}
}

// read parses a schema and follows its references within the document.
func (w *walker) read(at jsontext.Value) schema {
	var out schema
	for range refsMax {
		var s schema
		if at.Kind() != '{' || json.Unmarshal(at, &s) != nil {
			return out
		}
		if out.Default == nil {
			out.Default = s.Default
		}
		if out.Properties == nil {
			out.Properties = s.Properties
		}
		pointer, ok := strings.CutPrefix(s.Ref, "#")
		if !ok {
			return out
		}
		at = lookup(w.root, jsontext.Pointer(pointer))
	}
	return out
}

// lookup is the value at a JSON pointer (RFC 6901) through objects; nil if none.
func lookup(at jsontext.Value, p jsontext.Pointer) jsontext.Value {
	for name := range p.Tokens() {
		var members map[string]jsontext.Value
		if json.Unmarshal(at, &members) != nil {
			return nil
		}
		at = members[name]
	}
	return at
}
