package mcpshim

import (
	_ "embed"
	"runtime/debug"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/cmd/internal/mcpshim/jsonline"
)

// Hosts wait a second or two for the first answers, else the agent has no tools for the whole session. What every session
// begins with is therefore answered from here, before the SDK's server is built and whether or not a gateway runs. A test
// holds these answers to those that the SDK gives.

// Revisions of MCP.
const (
	newestRevision    = "2025-11-25" // with a handshake
	statelessRevision = "2026-07-28" // without one
)

// legacyRevisions have a handshake, newest first.
var legacyRevisions = []string{newestRevision, "2025-06-18", "2025-03-26", "2024-11-05"}

const instructions = `You act through a gateway that holds the credentials and performs the action itself; you get the result, never a secret.
Start with list_targets. A first call may wait for the operator's approval: a result "pending" names an action; ask action_status for it and do not send the call again.
After sent_unconfirmed, too, never repeat a call by yourself: it may have taken effect. A refusal says what to do next.`

// toolList is the array of tools/list. Schemas keep to the subset that every host takes: object, properties, one type
// each, items, enum, required, description. The gateway checks the arguments.
//
//go:embed tools.json
var toolList []byte

type (
	implementation struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	capabilities struct {
		Tools struct {
			ListChanged bool `json:"listChanged"`
		} `json:"tools"`
	}
	serverMeta struct {
		Subscription jsontext.Value `json:"io.modelcontextprotocol/subscriptionId,omitzero"`
		Server       implementation `json:"io.modelcontextprotocol/serverInfo"`
	}
	// whole is what each answer of the modern era has.
	whole struct {
		Type string     `json:"resultType"`
		Meta serverMeta `json:"_meta"`
	}
	cached struct {
		TTL   int    `json:"ttlMs"`
		Scope string `json:"cacheScope"`
	}
)

// itself names this server. The module's name is the product's.
func itself() implementation {
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Path != "" {
		return implementation{b.Main.Path, b.Main.Version}
	}
	return implementation{"gateway", "unknown"}
}

func tooled() (c capabilities) {
	c.Tools.ListChanged = true
	return c
}

func complete() whole { return whole{"complete", serverMeta{Server: itself()}} }

// embedded answers a request from what is known beforehand; ok is false for one that needs the session.
func (e *era) embedded(m jsonline.Message) (answer jsontext.Value, ok bool) {
	if e.begun {
		return nil, false
	}
	var doc any
	switch {
	case e == e.c.modern:
		doc = stateless(m)
	case m.Method == "initialize" && e.version == "":
		doc = e.handshake(m.Params)
	case m.Method == "ping":
		doc = struct{}{}
	case m.Method == "tools/list" && e.version != "" && !paged(m.Params):
		doc = struct {
			Tools jsontext.Value `json:"tools"`
		}{toolList}
	}
	if doc == nil {
		return nil, false
	}
	answer, err := json.Marshal(doc)
	return answer, err == nil
}

// handshake answers initialize; nil for params that the SDK shall judge.
func (e *era) handshake(params jsontext.Value) any {
	var p struct {
		Version      string         `json:"protocolVersion"`
		Capabilities jsontext.Value `json:"capabilities"`
		Client       jsontext.Value `json:"clientInfo"`
	}
	if params == nil || json.Unmarshal(params, &p) != nil || p.Capabilities.Kind() != '{' || p.Client.Kind() != '{' {
		return nil
	}
	e.version = newestRevision
	if slices.Contains(legacyRevisions, p.Version) {
		e.version = p.Version
	}
	return struct {
		Capabilities capabilities   `json:"capabilities"`
		Instructions string         `json:"instructions"`
		Version      string         `json:"protocolVersion"`
		Server       implementation `json:"serverInfo"`
	}{tooled(), instructions, e.version, itself()}
}

// stateless answers a request of the modern era; nil for one that the SDK shall judge.
func stateless(m jsonline.Message) any {
	said := metaOf(m.Params)
	if said.Version != statelessRevision || said.Capabilities.Kind() != '{' || (said.Client != nil && said.Client.Kind() != '{') {
		return nil
	}
	switch {
	case m.Method == "server/discover":
		return struct {
			whole
			cached
			Versions     []string     `json:"supportedVersions"`
			Capabilities capabilities `json:"capabilities"`
			Instructions string       `json:"instructions"`
		}{complete(), cached{Scope: "public"}, append([]string{statelessRevision}, legacyRevisions...), tooled(), instructions}
	case m.Method == "tools/list" && !paged(m.Params):
		return struct {
			whole
			cached
			Tools jsontext.Value `json:"tools"`
		}{complete(), cached{Scope: "public"}, toolList}
	}
	return nil
}

// paged says that a list is asked for from somewhere on, or that this cannot be read.
func paged(params jsontext.Value) bool {
	var p struct {
		Cursor jsontext.Value `json:"cursor"`
	}
	return params != nil && (json.Unmarshal(params, &p) != nil || p.Cursor != nil)
}
