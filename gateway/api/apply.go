package api

// PlanArgs are settings/plan's args; the apply file (TOML) follows the envelope's line.
type PlanArgs struct {
	ValueLength int    `json:"valueLength"`
	ValueDigest []byte `json:"valueDigest"` // SHA-256(salt | value)
}

// Plan is what an apply file would change, and what it wants for that. Digest names it.
type Plan struct {
	Changes []Change `json:"changes"`
	Values  []Wanted `json:"values"` // of the credentials that are new
	Logins  []string `json:"logins"` // the hosts that are logged in to, to prove their shell
	Ends    []string `json:"ends"`   // the live grants that end
	Digest  string   `json:"digest"`
}

// Change is one setting that another has or gets; Old and New are TOML values, empty where there is none.
type Change struct {
	Setting string `json:"setting"`
	Old     string `json:"old"`
	New     string `json:"new"`
}

// Wanted is a credential whose value is wanted.
type Wanted struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// ApplyArgs are settings/apply's args. After the envelope's line come the file and, end to end, the values that the plan
// wants. Plan is the digest of the plan that was shown: if another would be made by now, nothing is changed.
type ApplyArgs struct {
	Plan        string       `json:"plan"`
	FileLength  int          `json:"fileLength"`
	Values      []GivenValue `json:"values,omitempty"`
	ValueLength int          `json:"valueLength"`
	ValueDigest []byte       `json:"valueDigest"` // SHA-256(salt | file | values)
}

// GivenValue is one value among those that follow the file: Length bytes, of which the last PassphraseLength are the
// passphrase of a key file.
type GivenValue struct {
	Name             string `json:"name"`
	Length           int    `json:"length"`
	PassphraseLength int    `json:"passphraseLength,omitempty"`
}

// Applied answers settings/apply.
type Applied struct {
	Changes []Change `json:"changes"`
	Ended
}
