package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

// listing is a command that asks path for all of something and prints it as a
// table, or with --json as one array.
func listing[T any](a *app, use, short, path string, heads []string, row func(T) []string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: use, Short: short, Args: exactly()}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := fetch[T](cmd.Context(), a, path, nil)
		if err != nil {
			return err
		}
		return show(a, all, asJSON, heads, row)
	}
	return cmd
}

// show prints a listing.
func show[T any](a *app, all []T, asJSON bool, heads []string, row func(T) []string) error {
	if asJSON {
		return a.document(all)
	}
	rows := make([][]string, len(all))
	for i, v := range all {
		rows[i] = row(v)
	}
	return table(a.out, heads, rows)
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

// resolve turns what the operator typed into one of the ids: the id itself, or a
// beginning that only one of them has, with or without its prefix (such as "ap_").
func resolve(prefix, typed string, ids []string) (string, error) {
	word := strings.ToLower(strings.TrimPrefix(typed, prefix))
	var found []string
	for _, id := range ids {
		if strings.HasPrefix(strings.ToLower(strings.TrimPrefix(id, prefix)), word) {
			found = append(found, id)
		}
	}
	switch {
	case word == "" || len(found) == 0:
		return "", api.Fail("not_found", "nothing here has the id "+typed)
	case len(found) > 1:
		return "", usage("%s could be any of %s", typed, strings.Join(found, ", "))
	}
	return found[0], nil
}

// whole says that typed is a complete id, which needs no search.
func whole(prefix, typed string) bool {
	return strings.HasPrefix(typed, prefix) && len(typed) == len(prefix)+ulidLength
}
