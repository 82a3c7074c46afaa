package api

// HTTPRules are the rules of an HTTP credential as the operator types them: what it may be used for, and how its value is
// sent. An apply file has the same names in snake_case. Which kind takes which, the gateway says.
type HTTPRules struct {
	Allow             []string `json:"allow,omitempty"`        // METHODS ORIGIN/PATH-PATTERN
	AllowHeader       []string `json:"allowHeader,omitempty"`  // NAME or NAME=PATTERN
	AllowNetwork      []string `json:"allowNetwork,omitempty"` // CIDR
	AllowHTTP         bool     `json:"allowHttp,omitzero"`
	Scrub             string   `json:"scrub,omitempty"` // on (default), off
	IdempotencyHeader string   `json:"idempotencyHeader,omitempty"`
	Capture           []string `json:"capture,omitempty"` // JSON pointers to minted tokens in answers
	Probe             string   `json:"probe,omitempty"`   // GET PATH: a read that shows the credential works
	RemoteJob         `json:",inline"`
	Carried           `json:",inline"`
	CA                string   `json:"ca,omitempty"` // PEM
	SPKIPin           []string `json:"spkiPin,omitempty"`
}

// RemoteJob says how a write's answer names a job that it started at the service, and what asks for and cancels it.
type RemoteJob struct {
	JobID     string `json:"jobId,omitempty"`     // json:/id, header:NAME or location
	JobStatus string `json:"jobStatus,omitempty"` // METHOD PATH with {id}
	JobCancel string `json:"jobCancel,omitempty"`
}

// Carried says how a credential's value is sent; each kind has some of these.
type Carried struct {
	Username string `json:"username,omitempty"` // basic
	Header   string `json:"header,omitempty"`   // header
	Format   string `json:"format,omitempty"`   // header, path
	Param    string `json:"param,omitempty"`    // query, cookie, path
	Region   string `json:"region,omitempty"`   // sigv4
	Service  string `json:"service,omitempty"`  // sigv4
	Minting  `json:",inline"`
}

// Minting says where and how tokens are fetched.
type Minting struct {
	TokenURL     string   `json:"tokenUrl,omitempty"`     // oauth2, github-app
	ClientID     string   `json:"clientId,omitempty"`     // oauth2
	OAuthScope   []string `json:"oauthScope,omitempty"`   // oauth2
	Grant        string   `json:"grant,omitempty"`        // oauth2
	AppID        string   `json:"appId,omitempty"`        // github-app
	Installation string   `json:"installation,omitempty"` // github-app
	TokenAuth    string   `json:"tokenAuth,omitempty"`    // oauth2: header (default) or body
}

// CredentialShown is all that may be shown of one credential: never its value. Settings are its rules as they were typed,
// Hosts the SSH hosts that log in with it, Grants the live grants that name it.
type CredentialShown struct {
	Credential
	Principal string    `json:"principal,omitempty"`
	Settings  HTTPRules `json:"settings,omitzero"`
	Hosts     []string  `json:"hosts"`
	Grants    []string  `json:"grants"`
}

// RotateArgs are credential/rotate's args; the new value follows the envelope's line, as in CredentialArgs.
type RotateArgs struct {
	Name             string `json:"name"`
	ValueLength      int    `json:"valueLength"`
	ValueDigest      []byte `json:"valueDigest"` // SHA-256(salt | value)
	PassphraseLength int    `json:"passphraseLength,omitempty"`
}

// RebindArgs are credential/rebind's args: all that the credential shall have besides its kind and value. Version is the
// one that was looked at; if the credential has another by now, nothing is changed.
type RebindArgs struct {
	Name      string    `json:"name"`
	Version   uint64    `json:"version"`
	Account   string    `json:"account,omitempty"`
	Confirm   string    `json:"confirm,omitempty"`
	Principal string    `json:"principal,omitempty"` // ssh-ca
	Rules     HTTPRules `json:"rules,omitzero"`
}

// Altered answers credential/rotate and credential/rebind: the credential as it is now, what differs, and what ended.
type Altered struct {
	Credential Credential `json:"credential"`
	Changes    []Change   `json:"changes"`
	Ended
}

// Ended is what a change took back: the grants that named the credential as it was, and the actions by them that had left
// already, as they ended.
type Ended struct {
	Grants []string `json:"grants"`
	Left   []Action `json:"left"`
}

// Files are a host's rules for files and repositories, as HostArgs has them.
type Files struct {
	AllowUpload   []string `json:"allowUpload"`
	AllowDownload []string `json:"allowDownload"`
	AllowGit      []string `json:"allowGit"`
	GitRules      []string `json:"gitRules"`
}

// HostShown is all of one host. HostKeys are the pinned keys as known_hosts writes them, after the address.
type HostShown struct {
	Host
	Confirm      string     `json:"confirm"`
	AllowNetwork []string   `json:"allowNetwork"`
	AllowArgv    [][]string `json:"allowArgv"`
	AllowShell   bool       `json:"allowShell"`
	Files
	PinnedKeys []string `json:"pinnedKeys"`
	Prompt     string   `json:"prompt,omitempty"`
	Grants     []string `json:"grants"`
}
