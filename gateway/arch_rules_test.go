package gateway_test

import (
	"slices"
	"strings"
)

// module is the product's module path: everything of ours begins with it.
const module = "sallyport"

// pkg is what the rules need to know of a package, as `go list -json` prints it.
type pkg struct {
	ImportPath                         string
	Standard                           bool
	Imports, TestImports, XTestImports []string
	CgoFiles                           []string
}

// rule is one arrow. broken is pure: it names every import in the list that goes against it.
type rule struct {
	name, why string
	broken    func([]pkg) []string
	plant     pkg // a package that must break it: the test of the test
}

// to is one row of the arrows between our packages.
type to struct {
	may   string // imports of ours, below the module, apart by spaces
	tests string // and what its tests may import besides: "*" is anything
	why   string
}

// arrows is every package of ours. A new package needs a row before it compiles into anything.
var arrows = map[string]to{
	"authz":             {why: "it decides from values alone, so it can be read and enumerated alone"},
	"auditlog":          {why: "it knows bytes and keys of the log, no meaning: a reviewer reads it alone"},
	"auditlog/event":    {why: "the catalogue and the checks of meaning are pure: no log, no gateway behind them"},
	"auditlog/incident": {may: "auditlog/event", why: "a third fold: pure as the others, for the gateway's rows and a reviewer's log alike"},
	"vault":             {why: "whoever reads the vault must not have to read anything else"},
	"vault/keychain":    {why: "a slot is handed to the vault by the gateway, it knows neither"},
	"migrations":        {why: "SQL files and nothing else"},

	"httpexec":                {may: "gateway/scrub", why: "an executor is given a request, a secret and a set to mask; it judges and sends, no more"},
	"sshexec":                 {may: "gateway/scrub", tests: "sshexec/sshtest", why: "as httpexec; its tests speak to the in-process host"},
	"sshexec/sshtest":         {why: "a host for tests must not share the code it tests"},
	"gateway/scrub":           {why: "a leaf: it finds bytes in a stream"},
	"gateway/api":             {why: "wire structs and tables, shared by server and clients, behaviour of neither"},
	"gateway/home":            {why: "where things lie, before anything is open"},
	"gateway/peer":            {why: "kernel facts, before anybody is believed"},
	"gateway/launch":          {may: "gateway/peer", why: "it measures processes that peer has pinned"},
	"gateway/proof":           {may: "gateway/api", why: "it checks the wire's proof against what it is handed"},
	"gateway/store":           {may: "vault authz migrations", why: "it keeps their types in rows, and knows no pipeline"},
	"gateway/client":          {may: "gateway/api gateway/home gateway/peer", why: "it is linked into sp: no vault, no executor may come along"},
	"gateway/console/browser": {why: "it drives a real browser for tests, and knows nothing of ours"},
	"gateway/console":         {may: "gateway/api gateway/client", tests: "gateway gateway/home gateway/peer auditlog auditlog/event gateway/console/browser sshexec/sshtest", why: "one more client of the operators' door, with no rule of its own"},
	"gateway/presets":         {why: "data files"},
	"gateway/notify":          {why: "pointers for people, no authority"},
	"gateway/remote":          {may: "gateway/api", why: "a door, not a second road"},
	"gateway": {
		may: "auditlog auditlog/event auditlog/incident authz vault vault/keychain httpexec sshexec gateway/api gateway/console gateway/home gateway/launch" +
			" gateway/notify gateway/peer gateway/presets gateway/proof gateway/remote gateway/scrub gateway/store",
		tests: "gateway/client gateway/console/browser sshexec/sshtest",
		why:   "the one place that translates between the leaves; the database's files come through store alone",
	},

	"cmd/internal/mcpshim":              {may: "gateway/api gateway/client gateway/peer cmd/internal/mcpshim/calmenv cmd/internal/mcpshim/first cmd/internal/mcpshim/jsonline", why: "the shim is a client of the agents' door"},
	"cmd/internal/mcpshim/jsonline":     {why: "lines of JSON-RPC, whoever reads them"},
	"cmd/internal/mcpshim/wrap":         {may: "gateway/api gateway/client gateway/peer cmd/internal/mcpshim/jsonline", why: "the wrapper is a client of the agents' door"},
	"cmd/internal/mcpshim/realclients":  {tests: "gateway gateway/api gateway/client gateway/home gateway/peer sshexec/sshtest", why: "tests alone: real agents over the real programs"},
	"cmd/internal/mcpshim/calmenv":      {why: "it runs before every other package of the shim"},
	"cmd/internal/mcpshim/first":        {may: "cmd/internal/release/stamp", why: "it answers before every other package of the shim is there"},
	"cmd/internal/mcpshim/first/before": {may: "cmd/internal/mcpshim/first", why: "it says when, for sp alone"},
	"cmd/internal/confine":              {why: "what starts an agent knows the kernel, and nothing of ours"},
	"cmd/internal/clientcfg":            {why: "files of other programs, and nothing of ours"},
	"cmd/internal/drill":                {may: "auditlog auditlog/event gateway/api gateway/client gateway/home gateway/peer", why: "a drill is an operator, a client and a reviewer of a gateway of its own"},
	"cmd/internal/doctor":               {may: "gateway/home cmd/internal/confine", why: "it looks, and judges what it saw; it asks nobody"},
	"cmd/internal/release":              {may: "cmd/internal/release/stamp", why: "which build this is"},
	"cmd/internal/release/stamp":        {why: "what the linker writes"},
	"cmd/internal/service":              {why: "files for service managers, and who is served"},
	"cmd/internal/cli":                  {may: "auditlog auditlog/event auditlog/incident gateway/api gateway/client gateway/home gateway/peer cmd/internal/mcpshim cmd/internal/mcpshim/wrap cmd/internal/clientcfg cmd/internal/confine cmd/internal/doctor cmd/internal/drill cmd/internal/release cmd/internal/service", why: "sp has no way to a vault"},
	"cmd/internal/demo": {
		may:   "auditlog auditlog/event gateway gateway/api gateway/client gateway/home gateway/peer sshexec/sshtest",
		tests: "cmd/internal/cli",
		why:   "it plays operator, agent and reviewer over the real doors; the vault is the gateway's",
	},
	"cmd/sp":  {may: "cmd/internal/cli cmd/internal/mcpshim/first/before", tests: "*", why: "main is thin"},
	"cmd/spd": {may: "cmd/internal/cli cmd/internal/demo cmd/internal/release gateway gateway/home gateway/peer", why: "main is thin: it wires the gateway to its two doors"},
}

// rules are the arrows row by row, and what no row can say.
func rules() []rule {
	var rs []rule
	for name, a := range arrows {
		rs = append(rs, rule{
			name:   name + " imports " + or(a.may, "nothing of ours"),
			why:    a.why,
			broken: func(all []pkg) []string { return offRow(all, name, a) },
			plant:  pkg{ImportPath: ours(name), Imports: []string{ours("cmd/planted")}},
		})
	}
	slices.SortFunc(rs, func(a, b rule) int { return strings.Compare(a.name, b.name) })
	return append(rs,
		rule{
			name: "every package has a row", why: "a wall is put up before a room is furnished",
			broken: unknown,
			plant:  pkg{ImportPath: ours("gateway/util")},
		},
		rule{
			name: "the gateway never reaches cmd", why: "programs are made of packages, never the other way round",
			broken: func(all []pkg) []string { return reaches(all, ours("gateway"), isBelow(ours("cmd"))) },
			plant:  pkg{ImportPath: ours("vault"), Imports: []string{ours("cmd/internal/cli")}},
		},
		rule{
			name: "sp reaches no vault, database, ssh or executor", why: "whoever verifies a log does it with a program that has no way to a secret",
			broken: func(all []pkg) []string { return reaches(all, ours("cmd/sp"), notForSp) },
			plant:  pkg{ImportPath: ours("gateway/peer"), Imports: []string{"golang.org/x/crypto/ssh"}},
		},
		rule{
			name: "sp reaches of ours only what a client and a reviewer need", why: "what needs a measurement or the vault is a request that spd answers",
			broken: func(all []pkg) []string { return reaches(all, ours("cmd/sp"), notOfSp) },
			plant:  pkg{ImportPath: ours("gateway/client"), Imports: []string{ours("gateway/scrub")}},
		},
		rule{
			name: "authz imports no I/O and no context", why: "a decision that could wait or look could differ between two looks",
			broken: func(all []pkg) []string {
				return imports(all, ours("authz"), isBelow("net", "os", "io", "database/sql", "context", "syscall", "golang.org/x/sys", "math/rand", "crypto/rand", "C"))
			},
			plant: pkg{ImportPath: ours("authz"), Imports: []string{"net/netip"}},
		},
		rule{
			name: "auditlog/event and auditlog/incident import no I/O", why: "the folds are pure: the same log gives the same bytes",
			broken: func(all []pkg) []string {
				pure := isBelow("net", "os", "database/sql", "context", "syscall", "golang.org/x/sys", "math/rand", "crypto/rand")
				return append(imports(all, ours("auditlog/event"), pure), imports(all, ours("auditlog/incident"), pure)...)
			},
			plant: pkg{ImportPath: ours("auditlog/event"), Imports: []string{"os"}},
		},
		// Whoever wants age for a test of his own opens with it what vault wrote: gateway/store holds both together.
		only("filippo.io/age", "vault auditlog", "gateway/store", "two places seal: nobody else needs a key"),
		only("golang.org/x/crypto/ssh", "sshexec sshexec/sshtest", "", "one place speaks SSH"),
		only("github.com/pkg/sftp", "sshexec", "gateway", "one place speaks SSH, file transfers too"),
		only("github.com/mattn/go-sqlite3", "gateway/store", "", "one place owns the database"),
		only("database/sql", "gateway/store", "", "one owner of *sql.DB"),
		only("github.com/pressly/goose/v3", "gateway/store", "", "the owner of the database moves it forward"),
		only("github.com/jackc/pgx/v5", "gateway/store", "", "one place owns the database"),
		only("github.com/keybase/go-keychain", "vault/keychain", "", "one place opens the system's keychain"),
		only("github.com/godbus/dbus/v5", "gateway gateway/notify", "", "the system's word comes in at one place and goes out at one other"),
		only("github.com/go-webauthn/webauthn", "gateway/proof", "", "one place judges a proof"),
		only("github.com/modelcontextprotocol/go-sdk", "cmd/internal/mcpshim cmd/internal/demo cmd/internal/drill", "cmd/sp cmd/internal/mcpshim/realclients", "MCP ends at the shim; the clients of demo and drills speak it too"),
		only("github.com/spf13/cobra", "cmd/internal/cli cmd/spd", "", "command lines end at the programs"),
		only("github.com/chromedp/chromedp", "gateway/console/browser", "", "one place drives a browser, for tests alone"),
		only("github.com/mccutchen/go-httpbin/v2", "cmd/internal/demo", "*", "the upstream nobody here wrote is for the demo and for tests"),
		rule{
			name: "sp needs no C outside the standard library", why: "a static program ignores what the loader is told",
			broken: func(all []pkg) []string {
				return reaches(all, ours("cmd/sp"), func(p string) bool {
					return slices.ContainsFunc(all, func(q pkg) bool { return q.ImportPath == p && !q.Standard && len(q.CgoFiles) > 0 })
				})
			},
			plant: pkg{ImportPath: ours("gateway/peer"), CgoFiles: []string{"peer.go"}},
		},
		rule{
			name: "only vault/keychain has cgo of its own", why: "C is for the database and the keychain, nothing we write",
			broken: cgo,
			plant:  pkg{ImportPath: ours("gateway"), CgoFiles: []string{"gate.go"}},
		},
	)
}

// only says who may import a library. Its tests rule covers test files as well: who they are is named.
func only(lib, by, tests, why string) rule {
	return rule{
		name: "only " + by + " import " + lib, why: why,
		broken: func(all []pkg) (bad []string) {
			for _, p := range all {
				name, mine := strings.CutPrefix(p.ImportPath, module+"/")
				if !mine || has(by, name) {
					continue
				}
				from := p.Imports
				if tests != "*" && !has(tests, name) {
					from = slices.Concat(p.Imports, p.TestImports, p.XTestImports)
				}
				bad = append(bad, pick(p.ImportPath, from, isBelow(lib))...)
			}
			return bad
		},
		plant: pkg{ImportPath: ours("gateway/home"), Imports: []string{lib + "/part"}},
	}
}

// offRow is every import of ours that a package's row does not name; tests keep to it too, with the row's extras.
func offRow(all []pkg, name string, a to) (bad []string) {
	outside := func(extra string) func(string) bool {
		return func(path string) bool {
			short, mine := strings.CutPrefix(path, module+"/")
			return mine && short != name && extra != "*" && !has(a.may, short) && !has(extra, short)
		}
	}
	for _, p := range all {
		if p.ImportPath == ours(name) {
			bad = append(bad, pick(p.ImportPath, p.Imports, outside(""))...)
			// What a package may import, its tests may read as well, with their own helpers.
			bad = append(bad, pick(p.ImportPath+" (test)", slices.Concat(p.TestImports, p.XTestImports), outside(a.tests))...)
		}
	}
	return bad
}

func unknown(all []pkg) (bad []string) {
	for _, p := range all {
		name, mine := strings.CutPrefix(p.ImportPath, module+"/")
		if _, row := arrows[name]; mine && !row && !strings.Contains(name, "/testdata/") {
			bad = append(bad, p.ImportPath+" has no row")
		}
	}
	return bad
}

func cgo(all []pkg) (bad []string) {
	for _, p := range all {
		if isBelow(module)(p.ImportPath) && p.ImportPath != ours("vault/keychain") && len(p.CgoFiles) > 0 {
			bad = append(bad, p.ImportPath+" has "+strings.Join(p.CgoFiles, ", "))
		}
	}
	return bad
}

// notForSp is what would give sp a way to a secret.
func notForSp(p string) bool {
	// database/sql/driver alone is interfaces, which ulid implements.
	return strings.Contains(p, "sqlite") || p == "database/sql" || isBelow("golang.org/x/crypto/ssh",
		ours("vault"), ours("httpexec"), ours("sshexec"), ours("gateway/store"), ours("migrations"))(p)
}

// notOfSp is what of ours sp has no business with.
func notOfSp(p string) bool {
	const may = "auditlog auditlog/event auditlog/incident gateway/client gateway/api gateway/home gateway/peer cmd/sp"
	name, mine := strings.CutPrefix(p, module+"/")
	return mine && !has(may, name) && !strings.HasPrefix(name, "cmd/internal/")
}

func imports(all []pkg, from string, bad func(string) bool) (found []string) {
	for _, p := range all {
		if p.ImportPath == from {
			found = append(found, pick(p.ImportPath, p.Imports, bad)...)
		}
	}
	return found
}

// reaches walks the imports from one package and names the chain to each that is bad.
func reaches(all []pkg, from string, bad func(string) bool) (found []string) {
	next := map[string][]string{}
	for _, p := range all {
		next[p.ImportPath] = append(next[p.ImportPath], p.Imports...)
	}
	seen := map[string]bool{from: true}
	for queue := [][]string{{from}}; len(queue) > 0; queue = queue[1:] {
		chain := queue[0]
		for _, path := range next[chain[len(chain)-1]] {
			if seen[path] {
				continue
			}
			seen[path] = true
			longer := append(slices.Clone(chain), path)
			if bad(path) {
				found = append(found, strings.Join(longer, " > "))
			}
			queue = append(queue, longer)
		}
	}
	return found
}

func pick(from string, paths []string, bad func(string) bool) (found []string) {
	for _, p := range paths {
		if bad(p) {
			found = append(found, from+" imports "+p)
		}
	}
	return found
}

// isBelow is true for the paths themselves and whatever lies below them.
func isBelow(paths ...string) func(string) bool {
	return func(p string) bool {
		return slices.ContainsFunc(paths, func(q string) bool { return p == q || strings.HasPrefix(p, q+"/") })
	}
}

func has(list, name string) bool { return slices.Contains(strings.Fields(list), name) }
func ours(name string) string    { return module + "/" + name }

func or(s, instead string) string {
	if s == "" {
		return instead
	}
	return s
}
