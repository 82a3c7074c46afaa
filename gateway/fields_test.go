package gateway

import (
	"reflect"
	"strings"
	"testing"

	"sallyport/gateway/api"
	"sallyport/httpexec"
)

// What is typed (api.HTTPRules) and what is kept (httpexec.Spec) have the same fields, so none gets lost between them.
func TestSameFields(t *testing.T) {
	names := func(typ reflect.Type) map[string]reflect.Type {
		out := map[string]reflect.Type{}
		for _, f := range reflect.VisibleFields(typ) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				out[name] = f.Type
			}
		}
		return out
	}
	typed, kept := names(reflect.TypeFor[api.HTTPRules]()), names(reflect.TypeFor[httpexec.Spec]())
	delete(kept, "kind")
	for name, a := range typed {
		if b := kept[name]; b == nil || a.Kind() != b.Kind() {
			t.Errorf("%s: typed %v, kept %v", name, a, b)
		}
		if got := camel(snake(name)); got != name {
			t.Errorf("%s comes back as %s", name, got)
		}
	}
	for name := range kept {
		if typed[name] == nil {
			t.Errorf("%s can be kept and not be typed", name)
		}
	}
	for _, bad := range []string{"allowHttp", "Allow_http", "allow__http"} {
		if got := camel(bad); typed[got] != nil {
			t.Errorf("the TOML key %s is taken for %s", bad, got)
		}
	}
}
