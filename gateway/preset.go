package gateway

import (
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
	"sallyport/gateway/presets"
	"sallyport/httpexec"
)

// site is what may stand for a preset's host: a name, and a port.
var site = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?(:[0-9]{1,5})?$`)

// fill puts what a preset knows where the operator said nothing. The result is checked like anything typed.
func fill(a api.CredentialArgs) (api.CredentialArgs, error) {
	if a.Preset == "" {
		if a.Site != "" {
			return a, api.Fail("invalid_request", "site: belongs to a preset")
		}
		return a, nil
	}
	p, ok, err := presets.Find(a.Preset)
	switch {
	case err != nil:
		return a, err
	case !ok:
		return a, api.Fail("invalid_request", "preset: there is no "+escape(a.Preset, 64)+"; see `sp secret presets`")
	case a.Kind != "" && a.Kind != p.Kind:
		return a, api.Fail("invalid_request", "kind: preset "+p.Name+" is "+p.Kind+"; leave it out, or leave the preset out")
	}
	at := p.Site
	if a.Site != "" {
		at = a.Site
	}
	switch {
	case at == "" && len(a.Rules.Allow) == 0:
		return a, api.Fail("invalid_request", "site: preset "+p.Name+" wants the service's host, with --site")
	case at != "" && !site.MatchString(at):
		return a, api.Fail("invalid_request", "site: a host name, with a port where that is not 443")
	}
	base, err := p.At(at)
	if err != nil {
		return a, err
	}
	members := map[string]jsontext.Value{}
	if err := json.Unmarshal(base, &members); err != nil {
		return a, err
	}
	said := map[string]jsontext.Value{}
	if err := json.Unmarshal(encode(a.Rules), &said); err != nil {
		return a, err
	}
	for k, v := range said {
		members[k] = v
	}
	rules := api.HTTPRules{}
	if err := json.Unmarshal(encode(members), &rules, json.RejectUnknownMembers(true)); err != nil {
		return a, err
	}
	a.Kind, a.Rules = p.Kind, rules
	if a.Confirm == "" {
		a.Confirm = p.Confirm
	}
	// Other rules may leave no room for the preset's own probe.
	if _, err := compiledRules(a); err != nil && said["probe"] == nil && strings.HasPrefix(err.Error(), "probe: ") {
		a.Rules.Probe = ""
	}
	return a, nil
}

// compiledRules are a credential's rules as its executor will read them.
func compiledRules(a api.CredentialArgs) (httpexec.Rules, error) {
	spec, err := specOf(a.Kind, a.Rules)
	if err != nil {
		return httpexec.Rules{}, err
	}
	return httpexec.ParseRules(encode(spec))
}

func (g *Gateway) opCredentialPresets(opRequest) (any, error) {
	all, err := presets.All()
	if err != nil {
		return nil, err
	}
	out := []api.Preset{}
	for _, p := range all {
		x := api.Preset{Name: p.Name, Kind: p.Kind, Site: p.Site, Confirm: p.Confirm, About: p.About, Value: p.Value}
		b, err := p.At(p.Site)
		if err == nil {
			err = json.Unmarshal(b, &x.Rules)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}
