package api

// ImportArgs are credential/inspect's and credential/import's args. After the envelope's line come the file (FileLength
// bytes, an env file or a netrc) and the bindings (TOML; may be none). Plan is the digest that inspect answered, for import.
type ImportArgs struct {
	Format      string `json:"format"` // env, netrc
	FileLength  int    `json:"fileLength"`
	Plan        string `json:"plan,omitempty"`
	ValueLength int    `json:"valueLength"`
	ValueDigest []byte `json:"valueDigest"` // SHA-256(salt | file | bindings)
}

// ImportPlan is what would be taken from a file and what would not. Digest names what would be taken.
type ImportPlan struct {
	Taken   []Taken   `json:"taken"`
	Refused []Refused `json:"refused"`
	Digest  string    `json:"digest"`
}

// Taken is a value of the file that becomes a credential. From is its name there: a variable, or a machine.
type Taken struct {
	From       string     `json:"from"`
	Line       int        `json:"line"`
	Preset     string     `json:"preset,omitempty"`
	Credential Credential `json:"credential"`
}

// Refused is what a file holds and nobody takes, with the reason. From may be empty: a line that says nothing.
type Refused struct {
	From   string `json:"from"`
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}
