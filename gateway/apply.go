package gateway

import (
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"sallyport/gateway/api"
)

// applied is what an apply file may hold.
type applied struct {
	Settings settings `toml:"settings"`
}

// opApply changes what the file names and leaves the rest.
func (g *Gateway) opApply(r opRequest) (any, error) {
	var a api.ApplyArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	file, err := r.checked(a.ValueLength, a.ValueDigest)
	if err != nil {
		return nil, err
	}
	g.authority.Lock()
	defer g.authority.Unlock()
	snap, err := g.contents()
	if err != nil {
		return nil, err
	}
	was, err := readSettings(snap)
	if err != nil {
		return nil, err
	}
	next := applied{Settings: was}
	next.Settings.Budgets = was.Budgets.orDefault() // a file may name one of them
	if err := parseApply(file, &next); err != nil {
		return nil, err
	}
	changes := changed(was, next.Settings)
	if a.DryRun || len(changes) == 0 {
		return changes, nil
	}
	return changes, g.applySettings(r.ctx, was, next.Settings, changes, r.who)
}

// parseApply reads the file over the values that stand; an unknown key is refused.
func parseApply(file []byte, next *applied) error {
	was := next.Settings
	next.Settings.Recipients, next.Settings.Witness = slices.Clone(was.Recipients), slices.Clone(was.Witness)
	md, err := toml.Decode(string(file), next)
	if err != nil {
		return api.Fail("invalid_request", "the file is no TOML that apply knows: "+firstLine(err.Error()))
	}
	if un := md.Undecoded(); len(un) > 0 {
		return api.Fail("invalid_request", fmt.Sprintf("unknown key %q; [settings] takes %s", un[0], strings.Join(was.keys(), ", ")))
	}
	return next.Settings.check(func(key string) bool { return md.IsDefined("settings", key) })
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
