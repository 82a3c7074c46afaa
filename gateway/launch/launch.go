// Package launch writes down which code a process runs, and what its tools claim
// to be: the execution record and the catalog revision.
//
// A Record is measured twice, before exec from the command alone (Plan) and after
// the handshake from the living process (Observe); Agrees names what differs.
// Nothing is ever executed to find something out: versions are read from files.
//
// # Digests
//
// "sha256:" and 64 hex digits of a file's bytes; Sums prints them as
// `shasum -a 256` does. A tree digest is the SHA-256 of what `shasum -a 256`
// prints for every file of the trees, sorted by path as bytes; a symbolic link
// is a line "link TARGET  PATH" besides. The trees are the folder that the entry's
// package lives in, and what its runtime resolves packages from (node_modules,
// site-packages), followed through symbolic links. Left out is what a running
// program writes beside its code: version control, __pycache__, logs, databases,
// sockets, pid files. Files named .env… hold secrets: they are hashed with the
// Measurer's key, and left out without one.
//
// Digests find replaced and careless code. A process of the same user that hides
// on purpose can show other files than it runs: a record is evidence for a card,
// never authentication.
//
// # Limits
//
// A tree: 20,000 files and 2 s, else "unpinned". A single file: 512 MiB. A link
// chain, a launcher chain, a package chain: 16 steps. Folders: 64 deep. What
// can't be told has its reason in Unpinned, and says so before anybody approves.
package launch

// Unpinned stands in place of a digest that can't be given; the reason is in
// Record.Unpinned.
const Unpinned = "unpinned"

// Record is the execution record of one process. The zero value describes nothing.
// Paths are relative to WorkingDirectory where they lie below it, else absolute.
// LaunchCommand, paths and names of variables are text that others choose: escape
// them wherever they are shown.
type Record struct {
	ServerLabel      string     `json:"serverLabel,omitzero"` // set by the caller
	LaunchCommand    []string   `json:"launchCommand"`
	WorkingDirectory string     `json:"workingDirectory"`
	ProcessID        int        `json:"processId,omitzero"` // of the process that acts; 0: planned
	Code             Code       `json:",embed"`
	Environment      []Variable `json:"environment"` // sorted by name
	Launchers        []Artifact `json:"launchers"`   // what started it, outermost first
	Unpinned         []string   `json:"unpinned"`    // reasons, sorted; empty: everything is pinned
	// Deferred: a script or a launcher chooses what runs while it starts, so that a
	// plan can't know it. Agrees then holds the observed code to nothing.
	Deferred bool `json:"deferred,omitzero"`

	marks *marks // what the files were like; nil after a trip through JSON
}

// Code is what can act: an executable, what it reads first, and what that reads.
type Code struct {
	Exe            string     `json:"exe,omitzero"`
	ExeDigest      string     `json:"exeDigest,omitzero"`
	Entry          string     `json:"entry,omitzero"` // script, jar, pyz, module, without links; the executable itself if it is compiled
	EntryDigest    string     `json:"entryDigest,omitzero"`
	Lockfile       string     `json:"lockfile,omitzero"`
	LockfileDigest string     `json:"lockfileDigest,omitzero"`
	TreeDigest     string     `json:"treeDigest,omitzero"` // "": nothing but the entry
	Runtime        string     `json:"runtime,omitzero"`    // "node 22.14.0"
	Image          string     `json:"image,omitzero"`      // of docker, podman
	ImageDigest    string     `json:"imageDigest,omitzero"`
	Files          []Artifact `json:"files,omitempty"`  // package.json on the way, preloads, second lockfiles, scripts
	Config         []Artifact `json:"config,omitempty"` // of supervisors and runtimes
}

// Artifact is one file and its digest.
type Artifact struct {
	Path   string `json:"path"`
	Digest string `json:"digest"` // "sha256:…" or Unpinned
}

// Variable is one environment variable: never its value.
type Variable struct {
	Name string `json:"name"`
	Hash string `json:"hash,omitzero"` // "hmac-sha256:…" under the Measurer's key; "" without one
}
