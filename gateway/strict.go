package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
)

// maxTokens bounds a document's parts: bodies are one string each, and a token costs far more memory than its bytes.
const maxTokens = 1 << 16

// strict makes one token pass over a document and refuses what a later decoder would take silently: null for every
// type, keys that differ in case alone, any depth. The decoder itself refuses duplicate keys, bad UTF-8 and trailing data.
//
// Values at the pointers raw are somebody else's documents, which pass through as they are: of those only what the decoder
// refuses is refused.
func strict(doc []byte, raw ...string) error {
	d := jsontext.NewDecoder(bytes.NewReader(doc))
	var seen []map[string]bool // lower-cased keys of each open object; nil for an array
	for n := 0; ; n++ {
		if n > maxTokens {
			return fmt.Errorf("more than %d tokens", maxTokens)
		}
		depth := d.StackDepth()
		kind, length := d.StackIndex(depth)
		t, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch t.Kind() {
		case jsontext.KindNull:
			return fmt.Errorf("null at %q", pointer(d.StackPointer()))
		case jsontext.KindBeginObject, jsontext.KindBeginArray:
			if depth >= api.DepthLimit {
				return fmt.Errorf("nested deeper than %d", api.DepthLimit)
			}
			var keys map[string]bool
			if t.Kind() == jsontext.KindBeginObject {
				keys = map[string]bool{}
			}
			seen = append(seen, keys)
		case jsontext.KindEndObject, jsontext.KindEndArray:
			seen = seen[:len(seen)-1]
		case jsontext.KindString:
			if kind != jsontext.KindBeginObject || length%2 != 0 {
				continue // a value, not a key
			}
			key := strings.ToLower(t.String())
			if seen[len(seen)-1][key] {
				return fmt.Errorf("key %q twice but for its case", pointer(jsontext.Pointer(key)))
			}
			seen[len(seen)-1][key] = true
			if depth <= 2 && len(raw) > 0 && slices.Contains(raw, string(d.StackPointer())) {
				if err := d.SkipValue(); err != nil {
					return err
				}
			}
		}
	}
}

// decode reads one strict document into v; a fault is an invalid_request that names it. Values never appear in it.
func decode(doc []byte, v any) *api.Error { return decodeRaw(doc, v) }

// decodeRaw is decode for a document that holds others, at the pointers raw.
func decodeRaw(doc []byte, v any, raw ...string) *api.Error {
	if len(doc) == 0 {
		doc = []byte("{}")
	}
	err := strict(doc, raw...)
	if err == nil {
		err = json.Unmarshal(doc, v, json.RejectUnknownMembers(true))
	}
	if err == nil {
		return nil
	}
	return api.Fail("invalid_request", jsonFault(err))
}

// jsonFault tells what is wrong and where, without quoting a value.
func jsonFault(err error) string {
	if s, ok := errors.AsType[*json.SemanticError](err); ok {
		if errors.Is(s, json.ErrUnknownName) {
			return fmt.Sprintf("unknown field %q", pointer(s.JSONPointer))
		}
		return fmt.Sprintf("field %q: want %v, got %s", pointer(s.JSONPointer), s.GoType, s.JSONKind)
	}
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(s, jsontext.ErrDuplicateName) {
			return fmt.Sprintf("field %q twice", pointer(s.JSONPointer))
		}
		return fmt.Sprintf("not one JSON document: fault at byte %d", s.ByteOffset)
	}
	return err.Error()
}

// pointer bounds and trims a JSON pointer, which holds a caller's key names.
func pointer(p jsontext.Pointer) string {
	s := strings.TrimPrefix(string(p), "/")
	if len(s) > 128 {
		s = s[:128] + "…"
	}
	return s
}

// encode writes a document of ours; the types are closed, so it cannot fail but for a bug.
func encode(v any) jsontext.Value {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return b
}
