package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

// listing is a command that asks path for all of something and prints it as a
// table, or with --json as one array.
func listing[T any](a *app, use, short, path string, columns []column, row func(T) []string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: use, Short: short, Args: exactly()}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := fetch[T](cmd.Context(), a, path, nil)
		if err != nil {
			return err
		}
		return show(a, all, asJSON, columns, row)
	}
	return cmd
}

// show prints a listing.
func show[T any](a *app, all []T, asJSON bool, columns []column, row func(T) []string) error {
	if asJSON {
		return a.document(all)
	}
	rows := make([][]string, len(all))
	for i, v := range all {
		rows[i] = row(v)
	}
	return a.table(columns, rows)
}

// fetch asks path for a listing.
func fetch[T any](ctx context.Context, a *app, path string, args any) ([]T, error) {
	var all []T
	err := a.do(ctx, path, nil, args, nil, &all)
	return all, err
}

// complete turns what the operator typed into an id of path's listing; a whole id is not looked up.
func complete[T any](ctx context.Context, a *app, prefix, typed, path string, id func(T) string) (string, error) {
	if whole(prefix, typed) {
		return typed, nil
	}
	all, err := fetch[T](ctx, a, path, nil)
	if err != nil {
		return "", err
	}
	ids := make([]string, len(all))
	for i, v := range all {
		ids[i] = id(v)
	}
	return resolve(prefix, typed, ids)
}

// ulidLength is the length of what follows the prefix of an id.
const ulidLength = 26

// shortEnd is how much of an id's end Sessions and Activity print.
const shortEnd = 6

// names says that typed is id, a beginning of it, or its end as the logs print it,
// each with or without its prefix (such as "ap_").
func names(prefix, typed, id string) bool {
	word, id := strings.ToLower(strings.TrimPrefix(typed, prefix)), strings.ToLower(strings.TrimPrefix(id, prefix))
	return word != "" && (strings.HasPrefix(id, word) || len(word) >= shortEnd && strings.HasSuffix(id, word))
}

// resolve turns what the operator typed into the one of ids that it names.
func resolve(prefix, typed string, ids []string) (string, error) {
	var found []string
	for _, id := range ids {
		if id == typed {
			return id, nil
		}
		if names(prefix, typed, id) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", &noSuch{api.Fail("not_found", "nothing here has the id "+typed)}
	case 1:
		return found[0], nil
	}
	return "", usage("%s could be any of %s", typed, strings.Join(found, ", "))
}

// noSuch: none of the ids at hand is meant.
type noSuch struct{ err *api.Error }

func (e *noSuch) Error() string { return e.err.Error() }
func (e *noSuch) Unwrap() error { return e.err }

// whole says that typed is a complete id, which needs no search.
func whole(prefix, typed string) bool {
	return strings.HasPrefix(typed, prefix) && len(typed) == len(prefix)+ulidLength
}
