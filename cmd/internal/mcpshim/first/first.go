// Package first knows what every session of MCP begins with, and on Linux gives those answers before the rest of the
// program is initialised.
//
// Hosts wait a second or two for the first answers, else the agent has no tools for the whole session. initialize,
// server/discover, ping and tools/list are therefore answered from bytes that are known beforehand, whether or not a
// gateway runs; all else needs the SDK's server. A test of mcpshim holds these answers to those that the SDK gives.
//
// Like calmenv this package imports as good as nothing: the some 130 packages that sp links take longer to initialise than
// the answers do.
package first

import "sallyport/cmd/internal/release/stamp"

// Revisions of MCP.
const (
	newest    = "2025-11-25" // with a handshake
	Stateless = "2026-07-28" // without one
)

// Legacy returns the revisions that have a handshake, newest first.
func Legacy() []string { return []string{newest, "2025-06-18", "2025-03-26", "2024-11-05"} }

// Name is what this server calls itself.
const Name = "sallyport"

// Version is the release's number, "dev" in a build that has none: what else would tell is not there before main.
func Version() string {
	if stamp.Version != "" {
		return stamp.Version
	}
	return stamp.Unreleased
}

// Instructions are for the model: hosts show them to it.
const Instructions = `You act through a gateway that holds the credentials and performs the action itself; you get the result, never a secret.
Start with list_targets. A first call may wait for the operator's approval: a result "pending" names an action; ask action_status for it and do not send the call again.
After sent_unconfirmed, too, never repeat a call by yourself: it may have taken effect. A refusal says what to do next.`

// Session is how far the handshake of a host has come.
type Session struct {
	Version string // agreed; "" before initialize
	Told    bool   // the host has said initialized
}

// Answer answers a line from what is known beforehand: a request by its id, as the bytes that came, and a result; a
// notification by neither. ok is false for a line that needs the whole shim, and s is as it was.
func (s *Session) Answer(line []byte) (id, result []byte, ok bool) {
	r, ok := read(line)
	switch {
	case !ok:
		return nil, nil, false
	case r.id == nil:
		if r.method != "notifications/initialized" {
			return nil, nil, false
		}
		s.Told = true
		return nil, nil, true
	case r.method == "server/discover" || r.meta.version >= Stateless:
		result = stateless(r)
	case r.method == "initialize" && s.Version == "" && r.version != "" && r.capabilities && r.client:
		s.Version = newest
		for _, v := range Legacy() {
			if v == r.version {
				s.Version = v
			}
		}
		result = []byte(`{"capabilities":` + able + `,"instructions":` + quote(Instructions) + `,"protocolVersion":"` + s.Version + `","serverInfo":` + server() + `}`)
	case r.method == "ping":
		result = []byte(`{}`)
	case r.method == "tools/list" && s.Version != "" && !r.cursor:
		result = []byte(`{"tools":` + Tools() + `}`)
	}
	return r.id, result, result != nil
}

// stateless answers a request of the revision without a handshake.
func stateless(r request) []byte {
	if r.meta.version != Stateless || !r.meta.capabilities || r.meta.wrongClient {
		return nil
	}
	head := `{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":` + server() + `},"ttlMs":0,"cacheScope":"public",`
	switch {
	case r.method == "server/discover":
		versions := `"` + Stateless + `"`
		for _, v := range Legacy() {
			versions += `,"` + v + `"`
		}
		return []byte(head + `"supportedVersions":[` + versions + `],"capabilities":` + able + `,"instructions":` + quote(Instructions) + `}`)
	case r.method == "tools/list" && !r.cursor:
		return []byte(head + `"tools":` + Tools() + `}`)
	}
	return nil
}

const able = `{"tools":{"listChanged":true}}`

func server() string { return `{"name":"` + Name + `","version":` + quote(Version()) + `}` }

// quote writes ASCII text as a JSON string.
func quote(s string) string {
	b := []byte{'"'}
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}
