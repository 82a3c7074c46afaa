package gateway

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
)

// applyFile is an apply file, read. Lists are in the order of their names.
type applyFile struct {
	settings    settings
	credentials []api.CredentialArgs // values apart
	hosts       []api.HostArgs
}

// applyLimit bounds the credentials and hosts of one file.
const applyLimit = 256

// parseApply reads a file over the settings that stand. An unknown key is refused, and so is a value: those are asked for.
func parseApply(file []byte, was settings) (*applyFile, error) {
	doc := struct {
		Settings    settings                  `toml:"settings"`
		Credentials map[string]map[string]any `toml:"credentials"`
		Hosts       map[string]map[string]any `toml:"hosts"`
	}{Settings: was.over()}
	md, unknown, err := decodeTOML(file, &doc, "settings", "credentials", "hosts")
	if err != nil {
		return nil, api.Fail("invalid_request", "the file is no TOML that apply knows: "+tomlFault(err))
	}
	if unknown != "" {
		return nil, api.Fail("invalid_request", fmt.Sprintf("unknown key %q; a file has [settings] (%s), [credentials.NAME] and [hosts.NAME]", escape(unknown, 96), strings.Join(was.keys(), ", ")))
	}
	if len(doc.Credentials)+len(doc.Hosts) > applyLimit {
		return nil, api.Fail("invalid_request", fmt.Sprintf("more than %d credentials and hosts; split the file", applyLimit))
	}
	if err := doc.Settings.check(func(key string) bool { return md.IsDefined("settings", key) }); err != nil {
		return nil, err
	}
	out := &applyFile{settings: doc.Settings}
	for _, name := range slices.Sorted(maps.Keys(doc.Credentials)) {
		c, err := readCredential(name, doc.Credentials[name])
		if err != nil {
			return nil, inFile("credentials."+name, err)
		}
		out.credentials = append(out.credentials, c)
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Hosts)) {
		h := api.HostArgs{Name: name}
		if err := readTable(doc.Hosts[name], &h, "name", "enrol"); err != nil {
			return nil, inFile("hosts."+name, err)
		}
		out.hosts = append(out.hosts, h)
	}
	return out, nil
}

// tomlFault tells where a file is wrong. Its text may hold what somebody took for a place for secrets, so none is shown.
func tomlFault(err error) string {
	if p, ok := errors.AsType[toml.ParseError](err); ok {
		return fmt.Sprintf("fault in line %d, at %q", p.Position.Line, p.LastKey)
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// readCredential reads what a file says of one credential.
func readCredential(name string, table map[string]any) (api.CredentialArgs, error) {
	for _, key := range []string{"value", "secret", "token", "password", "key", "private_key"} {
		if _, said := table[key]; said {
			return api.CredentialArgs{}, api.Fail("invalid_request", key+": a file never holds a value; it is asked for, or read from a descriptor ("+name+"=fd:N)")
		}
	}
	var said struct {
		Kind      string `json:"kind"`
		Preset    string `json:"preset"`
		Site      string `json:"site"`
		Account   string `json:"account"`
		Confirm   string `json:"confirm"`
		Principal string `json:"principal"`
		api.HTTPRules
	}
	err := readTable(table, &said)
	return api.CredentialArgs{Name: name, Kind: said.Kind, Preset: said.Preset, Site: said.Site, Account: said.Account, Confirm: said.Confirm,
		Principal: said.Principal, Rules: said.HTTPRules}, err
}

// readTable reads a TOML table into v by v's JSON names, without those of refused.
func readTable(table map[string]any, v any, refused ...string) error {
	keys, doc := map[string]string{}, map[string]any{}
	for key, value := range table {
		if slices.Contains(refused, key) {
			return unknownKey(key)
		}
		name := camel(key)
		keys[name], doc[name] = key, value
	}
	b, err := json.Marshal(doc, json.Deterministic(true))
	if err != nil {
		return api.Fail("invalid_request", "a value of a kind that nothing here has")
	}
	err = json.Unmarshal(b, v, json.RejectUnknownMembers(true))
	s, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return err
	}
	top, _, _ := strings.Cut(strings.TrimPrefix(string(s.JSONPointer), "/"), "/")
	if errors.Is(s, json.ErrUnknownName) {
		return unknownKey(keys[top])
	}
	return api.Fail("invalid_request", fmt.Sprintf("%s: a %s where something else is wanted", keys[top], s.JSONKind))
}

func unknownKey(key string) error {
	if key == "enrol" {
		return api.Fail("invalid_request", "enrol: a file pins a key (host_key); `ssh-keyscan HOST` shows what a host presents, its owner what is right")
	}
	return api.Fail("invalid_request", fmt.Sprintf("unknown key %q", escape(key, 64)))
}

// inFile puts before a refusal where in the file it is about.
func inFile(where string, err error) error {
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		return err
	}
	out := *e
	out.Reason = escape(where, 96) + ": " + e.Reason
	return &out
}
