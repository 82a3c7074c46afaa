package confine

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What may be opened is everything beside the hidden folders, by the highest names that hold none of them.
func TestOpened(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"a/hidden/sub", "a/hidden2", "b/c/d"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"f", "a/f", "a/hidden/f"} {
		if err := os.WriteFile(filepath.Join(base, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(base, "a/hidden"), filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
	at := func(names ...string) (out []string) {
		for _, n := range names {
			out = append(out, filepath.Join(base, n))
		}
		return out
	}
	for _, c := range []struct {
		name         string
		hidden, want []string
	}{
		{"nothing of it hidden", []string{"/elsewhere"}, []string{base}},
		{"one folder", at("a/hidden"), at("a/f", "a/hidden2", "b", "f")},
		{"a folder to be made", at("b/c/later"), at("a", "b/c/d", "f")},
		{"a folder to be made below one to be made", at("b/x/y"), at("a", "b/c", "f")},
		{"the folder itself", []string{base}, []string{base}}, // its parent leaves it out
		{"two", at("a/hidden", "b"), at("a/f", "a/hidden2", "f")},
	} {
		got, err := opened(base, c.hidden)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}
