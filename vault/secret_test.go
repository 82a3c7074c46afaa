package vault_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"text/template"

	jsonx "github.com/go-json-experiment/json"

	"sallyport/vault"
)

// leaks says whether out holds value in a form that a printer might give it.
func leaks(out, value string) bool {
	list := strings.Trim(fmt.Sprint([]byte(value)), "[]") // "115 51 …"
	for _, f := range []string{value, hex.EncodeToString([]byte(value)), base64.StdEncoding.EncodeToString([]byte(value)),
		list, strings.ReplaceAll(list, " ", ",")} {
		if strings.Contains(strings.ToLower(out), strings.ToLower(f)) {
			return true
		}
	}
	return false
}

// printed is v in every way we know to print a value.
func printed(v any) (out []string) {
	for _, verb := range "vsxXqdboOUeEfFgGctTp" {
		for _, flag := range []string{"", "+", "#", " ", "-30", "08", ".3"} {
			out = append(out, fmt.Sprintf("%"+flag+string(verb), v))
		}
	}
	out = append(out, fmt.Sprint(v), fmt.Sprintln(v), fmt.Errorf("with %v", v).Error())
	std, _ := json.Marshal(v)
	exp, _ := jsonx.Marshal(v)
	x, _ := xml.Marshal(v)
	var b bytes.Buffer
	template.Must(template.New("").Parse("{{.}}")).Execute(&b, v)
	slog.New(slog.NewTextHandler(&b, nil)).Info("m", "k", v)
	slog.New(slog.NewJSONHandler(&b, nil)).Info("m", "k", v, slog.Group("g", "k", v))
	return append(out, string(std), string(exp), string(x), b.String())
}

func TestPrintsRedacted(t *testing.T) {
	const value = "s3cret-Value_0123456789"
	type wrapper struct {
		Open   any
		hidden any
	}
	check := func(name string, v any) {
		t.Helper()
		for _, w := range []any{v, &v, []any{v}, map[string]any{"k": v}, wrapper{v, v}, &wrapper{v, v}, struct{ error }{fmt.Errorf("%v", v)}} {
			for _, s := range printed(w) {
				if leaks(s, value) {
					t.Errorf("%s as %T leaks: %s", name, w, s)
				}
			}
		}
	}
	v := ready(t, newMemory())
	add(t, v, "a", value)
	if err := v.With(t.Context(), vault.Ref{Name: "a"}, func(s vault.Secret) error {
		check("secret", s)
		check("pointer to secret", &s)
		type typed struct {
			S vault.Secret
			s vault.Secret
		}
		check("struct of secrets", typed{s, s})
		for _, got := range []string{s.String(), s.GoString(), fmt.Sprintf("%x", s), s.LogValue().String()} {
			if got != "[redacted]" {
				t.Errorf("printed as %q", got)
			}
		}
		if b, err := json.Marshal(s); err != nil || string(b) != `"[redacted]"` {
			t.Errorf("JSON %s, %v", b, err)
		}
		// The search itself must find what it looks for.
		for _, s := range []string{string(s.Bytes()), fmt.Sprintf("%x", s.Bytes()), fmt.Sprintf("%v", s.Bytes())} {
			if !leaks(s, value) {
				t.Errorf("search misses %s", s)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	check("key", vault.Passphrase([]byte(value)))
	check("recovery key", vault.Recovery(value))
	check("vault", v)
	d, err := open(t, newMemory()).Prepare(key(), vault.CreateOptions{WorkFactor: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []any{d, &d, []any{d}} {
		for _, s := range printed(w) {
			if leaks(s, d.RecoveryIdentity) {
				t.Errorf("draft as %T leaks: %s", w, s)
			}
		}
	}
	check("snapshot", v.Snapshot())
	check("zero secret", vault.Secret{})
	if b := (vault.Secret{}).Bytes(); b != nil {
		t.Errorf("zero secret has bytes %q", b)
	}
}

func TestLoanEnds(t *testing.T) {
	v := ready(t, newMemory())
	add(t, v, "a", "plaintext")
	var kept vault.Secret
	var bytesKept []byte
	stop := errors.New("stop")
	use := func(s vault.Secret) error {
		kept, bytesKept = s, s.Bytes()
		if string(bytesKept) != "plaintext" || cap(bytesKept) != len(bytesKept) {
			t.Errorf("lent %q, capacity %d", bytesKept, cap(bytesKept))
		}
		return stop
	}
	over := func() {
		t.Helper()
		if kept.Bytes() != nil || !bytes.Equal(bytesKept, make([]byte, 9)) {
			t.Errorf("after the loan: %q, %q", kept.Bytes(), bytesKept)
		}
	}
	if err := v.With(t.Context(), vault.Ref{Name: "a"}, use); err != stop {
		t.Errorf("use's error came back as %v", err)
	}
	over()
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("panic was swallowed")
			}
		}()
		v.With(t.Context(), vault.Ref{Name: "a"}, func(s vault.Secret) error {
			use(s)
			panic("boom")
		})
	}()
	over()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := v.With(ctx, vault.Ref{Name: "a"}, use); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	// A loan outlives a Lock: the gate drains before, and zeros must not be sent.
	if err := v.With(t.Context(), vault.Ref{Name: "a"}, func(s vault.Secret) error {
		v.Lock()
		use(s)
		return nil
	}); err != nil {
		t.Error(err)
	}
	over()
}

func TestKeyWipe(t *testing.T) {
	v := ready(t, newMemory())
	typed := []byte(passphrase)
	k := vault.Passphrase(typed)
	clear(typed)
	if err := v.Check(t.Context(), k); err != nil {
		t.Errorf("key depends on the caller's bytes: %v", err)
	}
	k.Wipe()
	if err := v.Check(t.Context(), k); !errors.Is(err, vault.ErrWrongKey) {
		t.Errorf("wiped key: %v", err)
	}
	vault.Key{}.Wipe()
}
