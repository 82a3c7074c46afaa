package httpexec

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Carry says how a credential's value is sent. Each kind has some of these; what belongs to another kind is refused.
type Carry struct {
	Username string `json:"username,omitempty"` // basic
	Header   string `json:"header,omitempty"`   // header: its name
	Format   string `json:"format,omitempty"`   // header, path: what is sent, with one %s; "%s" when empty
	Param    string `json:"param,omitempty"`    // query: the key; cookie: its name; path: how many of the caller's segments stand before it (0 when empty)
	Region   string `json:"region,omitempty"`   // sigv4
	Service  string `json:"service,omitempty"`  // sigv4, as in "s3"
	Minting  `json:",inline"`
}

// Minting says where and how tokens are fetched: kinds oauth2 and github-app.
type Minting struct {
	TokenURL     string   `json:"tokenUrl,omitempty"`     // oauth2: the token endpoint; github-app: the API, https://api.github.com when empty
	ClientID     string   `json:"clientId,omitempty"`     // oauth2
	Scopes       []string `json:"oauthScope,omitempty"`   // oauth2
	Grant        string   `json:"grant,omitempty"`        // oauth2: client-credentials or refresh
	AppID        string   `json:"appId,omitempty"`        // github-app: the app's id or client id
	Installation string   `json:"installation,omitempty"` // github-app: the installation's number
	TokenAuth    string   `json:"tokenAuth,omitempty"`    // oauth2: where the client's secret goes, "header" (RFC 6749's own, when empty) or "body"
}

// kind is what a way to send a credential needs besides its value.
type kind struct {
	name        string
	needs, may  []string // fields of Carry by their JSON names
	value       string   // what the value is, for people
	secretParts bool     // the value is a document with secrets in it, not the secret itself
}

// kinds is the one table of them.
var kinds = []kind{
	{name: "bearer", value: "the token, sent as Authorization: Bearer"},
	{name: "basic", needs: []string{"username"}, value: "the password"},
	{name: "header", needs: []string{"header"}, may: []string{"format"}, value: "the key, sent in the named header"},
	{name: "query", needs: []string{"param"}, value: "the key, sent as that query key's value"},
	{name: "cookie", needs: []string{"param"}, value: "the cookie's value"},
	{name: "path", may: []string{"param", "format"}, value: "the segment (or segments, with slashes) that is put into the path"},
	{name: "sigv4", needs: []string{"region", "service"}, secretParts: true,
		value: "ACCESSKEYID:SECRET or ACCESSKEYID:SECRET:SESSIONTOKEN, or the JSON that `aws sts` prints (AccessKeyId, SecretAccessKey, SessionToken)"},
	{name: "oauth2", needs: []string{"tokenUrl", "clientId", "grant"}, may: []string{"oauthScope", "tokenAuth"}, secretParts: true,
		value: `client-credentials: the client's secret; refresh: the refresh token of a public client, or {"clientSecret":"…","refreshToken":"…"}`},
	{name: "github-app", needs: []string{"appId", "installation"}, may: []string{"tokenUrl"}, secretParts: true, value: "the app's private key, PEM"},
	{name: "mtls", secretParts: true, value: "the client's certificate chain and its private key, PEM, in one text"},
}

// Kinds lists the ways in which a credential can be sent.
func Kinds() []string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = k.name
	}
	return out
}

// ValueFormat says what a kind's value is, in words for people; empty for an unknown kind.
func ValueFormat(name string) string { return kindOf(name).value }

func kindOf(name string) kind {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}
	}
	return kinds[i]
}

// fields are the ones that are set.
func (c Carry) fields() map[string]string {
	all := map[string]string{"username": c.Username, "header": c.Header, "format": c.Format, "param": c.Param, "region": c.Region,
		"service": c.Service, "tokenUrl": c.TokenURL, "clientId": c.ClientID, "oauthScope": strings.Join(c.Scopes, " "), "grant": c.Grant,
		"appId": c.AppID, "installation": c.Installation, "tokenAuth": c.TokenAuth}
	for k, v := range all {
		if v == "" {
			delete(all, k)
		}
	}
	return all
}

// checkInjection checks the fields that say how the value is sent.
func (s Spec) checkInjection() error {
	k := kindOf(s.Kind)
	if k.name == "" {
		return fmt.Errorf("kind: %s is not known here; write one of %s", quote(s.Kind), strings.Join(Kinds(), ", "))
	}
	set := s.fields()
	for _, f := range k.needs {
		if set[f] == "" {
			return fmt.Errorf("%s: kind %s needs it", f, k.name)
		}
	}
	for f, v := range set {
		if !slices.Contains(k.needs, f) && !slices.Contains(k.may, f) {
			return fmt.Errorf("%s: kind %s has none", f, k.name)
		}
		if strings.IndexFunc(v, control) >= 0 {
			return fmt.Errorf("%s: control character in it", f)
		}
	}
	if err := s.checkFields(); err != nil {
		return err
	}
	if n := s.IdempotencyHeader; n != "" {
		if refusedHeader(n) != nil || s.sets(n) {
			return errors.New("idempotencyHeader: name a header like Idempotency-Key")
		}
	}
	return nil
}

func (s Spec) checkFields() error {
	switch s.Kind {
	case "basic":
		if strings.Contains(s.Username, ":") {
			return errors.New("username: has no colon")
		}
	case "header":
		if !token(s.Header) || structural(strings.ToLower(s.Header)) {
			return errors.New("header: name the header to set, like X-Api-Key; not one the exchange needs itself")
		}
	case "query":
		return checkQuery(pair{name: s.Param})
	case "cookie":
		if !token(s.Param) {
			return errors.New("param: name the cookie")
		}
	case "path":
		if n, err := strconv.Atoi("0" + s.Param); err != nil || n > 64 || s.Param != "" && strconv.Itoa(n) != s.Param {
			return errors.New("param: how many of the caller's path segments stand before the secret, 0 to 64")
		}
	case "sigv4":
		if !token(s.Region) || !token(s.Service) {
			return errors.New("region and service: one word each, like us-east-1 and s3")
		}
	case "oauth2":
		if s.Grant != "client-credentials" && s.Grant != "refresh" {
			return errors.New("grant: client-credentials or refresh")
		}
		if s.TokenAuth != "" && s.TokenAuth != "header" && s.TokenAuth != "body" {
			return errors.New("tokenAuth: header or body")
		}
	case "github-app":
		if !token(s.AppID) || strings.Trim(s.Installation, "0123456789") != "" || len(s.Installation) > 20 {
			return errors.New("appId and installation: the app's id or client id, and the installation's number")
		}
	}
	if s.Format != "" && (strings.Count(s.Format, "%") != 1 || !strings.Contains(s.Format, "%s")) {
		return errors.New(`format: needs exactly one %s and no other percent sign, like "token %s"`)
	}
	if strings.IndexFunc(s.Format, func(c rune) bool { return c < ' ' || c > '~' }) >= 0 || s.Format != strings.TrimSpace(s.Format) {
		return errors.New("format: must be printable ASCII without outer spaces")
	}
	return nil
}

func control(c rune) bool { return c < ' ' || c == 0x7f }

// mintURL is where the kind's tokens come from; nil where it mints none. It is held to what rules are held to.
func (s Spec) mintURL() (*url.URL, error) {
	text := s.TokenURL
	switch {
	case s.Kind == "github-app" && text == "":
		text = "https://api.github.com"
	case text == "":
		return nil, nil
	}
	q, err := ParseRequest(Input{URL: text})
	if err != nil {
		return nil, fmt.Errorf("tokenUrl: %s", err.(*RequestError).Reason)
	}
	if q.origin.scheme == "http" && !s.AllowHTTP && !q.origin.loopback() {
		return nil, errors.New("tokenUrl: http shows the secret to the network; write https, or say allowHttp")
	}
	u, err := url.Parse(q.URL())
	if err != nil {
		return nil, errors.New("tokenUrl: not readable")
	}
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), ""
	return u, nil
}

// sets tells the headers that carry the secret or what is derived from it.
func (s Spec) sets(name string) bool {
	switch n := strings.ToLower(name); s.Kind {
	case "header":
		return strings.EqualFold(n, s.Header)
	case "sigv4":
		return n == "authorization" || n == "x-amz-date" || n == "x-amz-security-token" || n == "x-amz-content-sha256"
	case "query", "cookie", "path", "mtls":
		return false // a cookie is refused in every request, whatever the kind
	default:
		return n == "authorization"
	}
}

// checkPlace refuses a request that has something of its own where the secret goes.
func (s Spec) checkPlace(q Request) error {
	switch s.Kind {
	case "query":
		for _, p := range q.query {
			if sameKey(p.name, s.Param) {
				return &RequestError{codeMismatch, "query key " + quote(p.name) + ": the vault sets it; leave it out"}
			}
		}
	case "path":
		if s.place() > len(q.segs) || s.place() == len(q.segs) && q.segs[len(q.segs)-1] == "" {
			return &RequestError{codeMismatch, "the path is too short for the place where the vault puts the secret; name at least " + strconv.Itoa(s.place()) + " segments"}
		}
	}
	return nil
}

// place is how many of the caller's segments stand before a secret in the path.
func (s Spec) place() int {
	n, _ := strconv.Atoi("0" + s.Param)
	return n
}
