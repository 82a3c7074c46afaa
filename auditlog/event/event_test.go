package event

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the catalogue in doc.go and the files in testdata")

// hostile are the pieces that filled values are made of.
var hostile = []string{"a", "run_01JQ7R4S4S0QJ7GZP1S2ABCDEF", `"`, `\`, "<&>", "\n", "\x1b[2J", "\u202e", "\u009b", "é", "😀", "\U000e0041", "=", " ", "null", "{}"}

// fill sets every field below v. Lists and pointers are sometimes left out, unless full.
func fill(v reflect.Value, r *rand.Rand, full bool) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(r.Int64N(1<<33)+1, r.Int64N(1e9)).UTC()))
		return
	case []byte:
		if b := make([]byte, r.IntN(40)+1); full || r.IntN(2) == 0 {
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			v.SetBytes(b)
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		var s string
		for range r.IntN(4) + 1 {
			s += hostile[r.IntN(len(hostile))]
		}
		v.SetString(s)
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64()>>r.IntN(64) | 1)
	case reflect.Uint64:
		v.SetUint(r.Uint64()>>r.IntN(64) | 1)
	case reflect.Bool:
		v.SetBool(full || r.IntN(2) == 0)
	case reflect.Pointer:
		if full || r.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), r, full)
		}
	case reflect.Slice:
		n := r.IntN(3)
		if full {
			n++
		}
		if n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range n {
			fill(v.Index(i), r, full)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), r, full)
		}
	default:
		panic(fmt.Sprintf("no way to fill a %s", v.Type()))
	}
}

// filled makes an event of the row.
func (r row) filled(seed uint64, full bool) Event {
	v := reflect.New(r.typ).Elem()
	fill(v, rand.New(rand.NewPCG(seed, 1)), full)
	return v.Interface().(Event)
}

// Every exported struct of the catalogue that is not a part of another must have its line in the table.
func TestEveryStructIsListed(t *testing.T) {
	files, err := filepath.Glob("catalog*.go")
	if err != nil {
		t.Fatal(err)
	}
	var decls []ast.Decl
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		decls = append(decls, f.Decls...)
	}
	var declared, listed []string
	for _, d := range decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			name := s.(*ast.TypeSpec).Name.Name
			if !slices.Contains([]string{"Event", "Peer", "Call", "Assertion", "Process", "Descriptor", "Kin", "Lead", "Remote", "Artifact", "Execution"}, name) {
				declared = append(declared, name)
			}
		}
	}
	for _, r := range table {
		listed = append(listed, r.typ.Name())
		if want := snake(r.typ.Name()); r.name != want {
			t.Errorf("%s is called %s, want %s", r.typ.Name(), r.name, want)
		}
		if r.fold != sessions && r.fold != activity {
			t.Errorf("%s is in no fold", r.name)
		}
	}
	slices.Sort(declared)
	slices.Sort(listed)
	if !slices.Equal(declared, listed) {
		t.Errorf("declared %v\nlisted   %v", declared, listed)
	}
	if len(byName) != len(table) || len(byType) != len(table) {
		t.Errorf("%d lines, %d names, %d structs", len(table), len(byName), len(byType))
	}
	if _, ok := reflect.Zero(reflect.TypeFor[Call]()).Interface().(Event); ok {
		t.Error("Call is a part of events, yet counts as one")
	}
}

func snake(s string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(s, "${1}_${2}"))
}

// A secret has no field to be in: every field has a fixed shape, and none may take the place of a line's own keys.
func TestFieldsHaveFixedShapes(t *testing.T) {
	camel := regexp.MustCompile(`^[a-z][a-zA-Z]*$`)
	var check func(path string, typ reflect.Type)
	check = func(path string, typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Map, reflect.Interface, reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Float32, reflect.Float64, reflect.Array:
			t.Errorf("%s is a %s", path, typ.Kind())
		case reflect.Pointer, reflect.Slice:
			check(path+"[]", typ.Elem())
		case reflect.Struct:
			if typ == reflect.TypeFor[time.Time]() {
				return
			}
			for _, f := range reflect.VisibleFields(typ) {
				if f.Anonymous {
					continue
				}
				key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if !camel.MatchString(key) || slices.Contains([]string{"type", "seq", "time"}, key) {
					t.Errorf("%s.%s has key %q", path, f.Name, key)
				}
				check(path+"."+f.Name, f.Type)
			}
		}
	}
	for _, r := range table {
		check(r.typ.Name(), r.typ)
	}
}

// The catalogue in the package comment is the table's.
func TestCatalogueInDoc(t *testing.T) {
	var b strings.Builder
	name := map[fold]string{sessions: "Sessions", activity: "Activity"}
	for _, r := range table {
		fmt.Fprintf(&b, "//\t%-*s  %s  %s\n", typeWidth, r.name, name[r.fold], strings.Join(fields(r.typ), ", "))
	}
	got, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		got = regexp.MustCompile(`(?m)(^//\t.*\n)+`).ReplaceAll(got, []byte(b.String()))
		if err := os.WriteFile("doc.go", got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(got), "//\n"+b.String()+"package event") {
		t.Errorf("doc.go does not hold this catalogue (go test -update writes it):\n%s", b.String())
	}
}

// fields lists a struct's keys and shapes as the catalogue does.
func fields(typ reflect.Type) (out []string) {
	for _, f := range reflect.VisibleFields(typ) {
		if f.Anonymous {
			continue
		}
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if strings.HasPrefix(options, "omit") {
			key += "?"
		}
		out = append(out, key+" "+shape(f.Type))
	}
	return out
}

func shape(typ reflect.Type) string {
	switch typ {
	case reflect.TypeFor[time.Time]():
		return "time"
	case reflect.TypeFor[[]byte]():
		return "bytes"
	}
	switch typ.Kind() {
	case reflect.Slice:
		return "[" + shape(typ.Elem()) + "]"
	case reflect.Pointer:
		return shape(typ.Elem())
	case reflect.Struct:
		return strings.ToLower(typ.Name())
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "int"
	}
	return typ.Name()
}
