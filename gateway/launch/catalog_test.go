package launch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func catalog(t *testing.T, tools ...string) Revision {
	t.Helper()
	r, err := Catalog([][]byte{[]byte(`{"tools":[` + strings.Join(tools, ",") + `]}`)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const preview = `{"name":"publish_preview","description":"d","annotations":{"readOnlyHint":true},` +
	`"inputSchema":{"type":"object","required":["branch"],"properties":{"branch":{"type":"string"}%s},"additionalProperties":false}}`

const target = `,"target":{"type":"string","enum":["preview","production"],"default":"preview"}`

// M13, M25: the field that the article adds.
func TestCatalogNewField(t *testing.T) {
	a, b := catalog(t, fmt.Sprintf(preview, "")), catalog(t, fmt.Sprintf(preview, target))
	x, y := a.Tools["publish_preview"], b.Tools["publish_preview"]
	if a.ID == b.ID || x.Contract == y.Contract || x.Presentation != y.Presentation {
		t.Error("the new field is not a change of the contract alone")
	}
	if len(x.Defaults) != 0 || string(y.Defaults["target"]) != `"preview"` {
		t.Errorf("defaults %q, %q", x.Defaults, y.Defaults)
	}
	if got := y.Omitted([]byte(`{"branch":"main"}`)); len(got) != 1 || string(got["target"]) != `"preview"` {
		t.Errorf("omitted %q", got)
	}
	if got := y.Omitted([]byte(`{"branch":"main","target":"production"}`)); len(got) != 0 {
		t.Errorf("given, yet omitted: %q", got)
	}
	var lines []string
	for _, c := range Diff(a, b) {
		lines = append(lines, c.String())
	}
	want := []string{`publish_preview: contract: /inputSchema/properties/target added: {"default":"preview","enum":["preview","production"],"type":"string"}`}
	if !slices.Equal(lines, want) {
		t.Errorf("diff %q", lines)
	}
}

func TestCatalogFingerprints(t *testing.T) {
	base := `{"name":"t","title":"T","description":"d","inputSchema":{"type":"object","maximum":9007199254740993},"outputSchema":{"a":1},` +
		`"annotations":{"readOnlyHint":true},"icons":[],"_meta":{"x":1}}`
	a := catalog(t, base).Tools["t"]
	for _, tc := range []struct {
		what, old, new         string
		contract, presentation bool
	}{
		{"white space and order", `"name":"t","title":"T",`, ` "title" : "T", "name":"\u0074",`, false, false},
		{"a number's form", `"a":1`, `"a":1.0`, false, false},
		{"title", `"T"`, `"U"`, false, true},
		{"description", `"d"`, `"e"`, false, true},
		{"annotation (M20)", `"readOnlyHint":true`, `"readOnlyHint":false`, false, true},
		{"icons", `[]`, `[{"src":"x"}]`, false, true},
		{"_meta", `"x":1`, `"x":2`, false, true},
		{"input schema", `"object"`, `"array"`, true, false},
		{"output schema", `"a":1`, `"a":2`, true, false},
		{"beyond 2^53", `9007199254740993`, `9007199254740992`, true, false},
		{"a member nobody knows", `"icons"`, `"execution":{},"icons"`, true, false},
		{"annotation gone", `"annotations":{"readOnlyHint":true},`, ``, false, true},
	} {
		changed := strings.Replace(base, tc.old, tc.new, 1)
		if changed == base {
			t.Fatalf("%s: nothing replaced", tc.what)
		}
		b := catalog(t, changed).Tools["t"]
		if (a.Contract != b.Contract) != tc.contract || (a.Presentation != b.Presentation) != tc.presentation {
			t.Errorf("%s: contract changed %v, presentation changed %v", tc.what, a.Contract != b.Contract, a.Presentation != b.Presentation)
		}
	}
}

func TestCatalogPages(t *testing.T) {
	one, two := `{"name":"a"}`, `{"name":"b"}`
	whole := catalog(t, two, one)
	parts, err := Catalog([][]byte{[]byte(`{"tools":[` + one + `],"nextCursor":"x"}`), []byte(`{"tools":[` + two + `],"ttl":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	if whole.ID != parts.ID || len(parts.Tools) != 2 {
		t.Errorf("%s, %s", whole.ID, parts.ID)
	}
	empty := catalog(t)
	if empty.ID == "" || empty.ID == whole.ID {
		t.Errorf("empty catalog %q", empty.ID)
	}
	var r []string
	for _, c := range Diff(whole, catalog(t, `{"name":"b"}`, `{"name":"c"}`)) {
		r = append(r, c.String())
	}
	if !slices.Equal(r, []string{"a: tool removed", "c: tool added"}) {
		t.Errorf("diff %q", r)
	}
}

func TestCatalogRefuses(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70)
	for what, pages := range map[string][]string{
		"no page": {}, "nothing": {""}, "no object": {"[]"}, "no list": {"{}"}, "null": {`{"tools":null}`}, "list of one": {`{"tools":{}}`},
		"trailing": {`{"tools":[]} x`}, "twice": {`{"tools":[],"tools":[]}`}, "bad UTF-8": {"{\"tools\":[{\"name\":\"\xff\"}]}"},
		"no name": {`{"tools":[{}]}`}, "empty name": {`{"tools":[{"name":""}]}`}, "name null": {`{"tools":[{"name":null}]}`},
		"name number": {`{"tools":[{"name":1}]}`}, "tool null": {`{"tools":[null]}`}, "tool twice": {`{"tools":[{"name":"a"},{"name":"\u0061"}]}`},
		"member twice":        {`{"tools":[{"name":"a","description":"x","description":"y"}]}`},
		"schema member twice": {`{"tools":[{"name":"a","inputSchema":{"type":"object","type":"array"}}]}`},
		"more to come":        {`{"tools":[],"nextCursor":"x"}`}, "ended before": {`{"tools":[]}`, `{"tools":[]}`},
		"too deep":  {`{"tools":[{"name":"a","inputSchema":` + deep + `}]}`},
		"too large": {`{"tools":[{"name":"` + strings.Repeat("a", catalogMax) + `"}]}`},
		"too many":  {`{"tools":[` + strings.TrimSuffix(strings.Repeat(`{"name":"@"},`, toolsMax+1), ",") + `]}`},
	} {
		var b [][]byte
		for _, p := range pages {
			for i := 0; strings.Contains(p, `"@"`); i++ {
				p = strings.Replace(p, `"@"`, fmt.Sprintf(`"t%d"`, i), 1)
			}
			b = append(b, []byte(p))
		}
		if r, err := Catalog(b); err == nil {
			t.Errorf("%s: %d tools", what, len(r.Tools))
		}
	}
}

// Defaults are found behind references and in objects, and a schema that refers
// to itself ends.
func TestDefaults(t *testing.T) {
	tool := catalog(t, `{"name":"t","inputSchema":{"type":"object","$defs":{"lv":{"type":"integer","default":3},"node":{"properties":{"next":{"$ref":"#/$defs/node"},"v":{"default":null}}}},`+
		`"properties":{"level":{"$ref":"#/$defs/lv"},"o":{"properties":{"deep":{"default":[1]},"x":{}}},"tree":{"$ref":"#/$defs/node"},"a":{"$ref":"#/properties/a"},"z":{"$ref":"#/none"}}}}`).Tools["t"]
	for name, want := range map[string]string{"level": "3", "o.deep": "[1]", "tree.v": "null", "tree.next.v": "null"} {
		if got := string(tool.Defaults[name]); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if len(tool.Defaults) > defaultsMax {
		t.Errorf("%d defaults", len(tool.Defaults))
	}
	for args, want := range map[string]string{
		`{}`: "level", `{"level":1}`: "", `{"level":1,"o":{}}`: "o.deep", `{"level":1,"o":{"deep":1}}`: "", ``: "level", `[]`: "level", `{"level":1,"o":3}`: "o.deep",
	} {
		var got []string
		for name := range tool.Omitted([]byte(args)) {
			got = append(got, name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: omitted %q, want %q", args, got, want)
		}
	}
}

func TestDiffBounds(t *testing.T) {
	var many, changed []string
	for i := range 300 {
		many = append(many, fmt.Sprintf(`{"name":"t%d","description":"%s"}`, i, strings.Repeat("a", 2000)))
		changed = append(changed, fmt.Sprintf(`{"name":"t%d","description":"%s"}`, i, strings.Repeat("b", 2000)))
	}
	d := Diff(catalog(t, many...), catalog(t, changed...))
	if len(d) != changesMax || d[0].Part != PartPresentation || d[0].Path != "/description" || len(d[0].New) > shownMax+4 {
		t.Errorf("%d changes, %+v", len(d), d[0])
	}
	if d := Diff(Revision{}, Revision{}); len(d) != 0 {
		t.Errorf("no difference: %v", d)
	}
}

func FuzzCatalog(f *testing.F) {
	f.Add([]byte(`{"tools":[`+fmt.Sprintf(preview, target)+`]}`), []byte(`{"branch":"x"}`))
	f.Add([]byte(`{"tools":[{"name":"a","inputSchema":{"properties":{"a":{"$ref":"#/properties/a","default":1}}}}]}`), []byte(`{"a":{}}`))
	f.Fuzz(func(t *testing.T, page, args []byte) {
		r, err := Catalog([][]byte{page})
		if err != nil {
			if r.ID != "" {
				t.Error("an id beside an error")
			}
			return
		}
		// Canonical documents are their own canonical form.
		var tools []string
		for name, tool := range r.Tools {
			tool.Omitted(args)
			if name == "" {
				t.Error("a tool without a name")
			}
			c, p := string(tool.ContractDoc), string(tool.PresentationDoc)
			if p != "{}" {
				c = strings.TrimSuffix(c, "}") + "," + strings.TrimPrefix(p, "{")
			}
			tools = append(tools, c)
		}
		again, err := Catalog([][]byte{[]byte(`{"tools":[` + strings.Join(tools, ",") + `]}`)})
		if err != nil || again.ID != r.ID {
			t.Errorf("%v: %s, then %s: %q", err, r.ID, again.ID, tools)
		}
		if d := Diff(r, again); len(d) != 0 {
			t.Errorf("differs from itself: %v", d)
		}
	})
}
