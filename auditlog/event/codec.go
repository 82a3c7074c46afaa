package event

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"
)

// Encode returns e as one canonical JSON object: "type" first, then the struct's fields in their order, no space between
// tokens, times in UTC. Text that is no UTF-8 has U+FFFD for each wrong byte: a record with a scar is better than none.
// It panics on a value that is not in the table, which only a mistake in this program can make.
func Encode(e Event) []byte { return appendEvent([]byte{'{'}, e) }

// appendEvent writes `"type":"…",…}` after whatever begins the object.
func appendEvent(b []byte, e Event) []byte {
	v := value(e)
	r, ok := byType[v.Type()]
	if !ok {
		panic(fmt.Sprintf("encode event: %s is not in the table", v.Type()))
	}
	body, err := json.Marshal(v.Interface(), encoding)
	if err != nil {
		panic(fmt.Sprintf("encode event %s: %v", r.name, err))
	}
	b = append(b, `"type":"`...)
	b = append(b, r.name...)
	b = append(b, '"')
	if len(body) > len("{}") {
		b = append(b, ',')
	}
	return append(b, body[1:]...)
}

// value is e's struct, also where a pointer to it was given.
func value(e Event) reflect.Value {
	v := reflect.ValueOf(e)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if !v.IsValid() {
		panic("encode event: no event")
	}
	return v
}

// Decode reads exactly what Encode writes; any other spelling of the same event is refused too. So an unknown type or
// field, a duplicate, null, a trailing byte or a wrong order is an error. Empty lists come back nil.
func Decode(b []byte) (Event, error) {
	rest, ok := bytes.CutPrefix(b, []byte(`{"type":"`))
	name, rest, quoted := bytes.Cut(rest, []byte{'"'})
	if !ok || !quoted || len(rest) == 0 {
		return nil, errors.New("decode event: it does not begin with its type")
	}
	r, ok := byName[string(name)]
	if !ok {
		return nil, fmt.Errorf("decode event: no type %.40q", name)
	}
	body := append([]byte{'{'}, bytes.TrimPrefix(rest, []byte{','})...)
	v := reflect.New(r.typ)
	if err := json.Unmarshal(body, v.Interface(), json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("decode event %s: %w", r.name, err)
	}
	dropEmpty(v.Elem())
	e := v.Elem().Interface().(Event)
	if !bytes.Equal(Encode(e), b) {
		return nil, fmt.Errorf("decode event %s: not the canonical form", r.name)
	}
	return e, nil
}

// dropEmpty makes empty slices nil, so that there is one value for "none".
func dropEmpty(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		if v.Len() == 0 {
			v.SetZero()
		}
		for i := range v.Len() {
			dropEmpty(v.Index(i))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			dropEmpty(v.Field(i))
		}
	}
}

// encoding makes every value of the table's structs encodable, in one way only.
var encoding = json.JoinOptions(
	jsontext.AllowInvalidUTF8(true),
	json.Deterministic(true),
	json.WithMarshalers(json.MarshalToFunc(func(e *jsontext.Encoder, t time.Time) error {
		return e.WriteToken(jsontext.String(stamp(t)))
	})),
)

// stamp is RFC 3339 in UTC. A time that RFC 3339 cannot write becomes the nearest one that it can.
func stamp(t time.Time) string {
	t = t.UTC()
	switch y := t.Year(); {
	case y < 0:
		t = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	case y > 9999:
		t = time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	}
	return t.Format(time.RFC3339Nano)
}

// Type returns the event's name in the log; "" for a value that is not in the table.
func Type(e Event) string {
	if e == nil {
		return ""
	}
	return byType[value(e).Type()].name
}

// IsActivity reports whether e is read in Activity. Everything else is read in Sessions.
func IsActivity(e Event) bool {
	return e != nil && byType[value(e).Type()].fold == activity
}

// Subject returns the 16 bytes of the ULID in an id such as act_01JQ7R4S4S0QJ7GZP1S2ABCDEF; zero if id is none.
func Subject(id string) [16]byte {
	prefix, text, ok := strings.Cut(id, "_")
	if !ok || prefix == "" || strings.Trim(prefix, "abcdefghijklmnopqrstuvwxyz") != "" {
		return [16]byte{}
	}
	u, err := ulid.ParseStrict(text)
	if err != nil || u.String() != text {
		return [16]byte{}
	}
	return u
}
