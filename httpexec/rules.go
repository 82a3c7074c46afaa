package httpexec

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// Spec is a credential's rules as the gateway stores them (JSON, camelCase keys, all on one level).
type Spec struct {
	Kind              string           `json:"kind"`                        // one of Kinds
	Allow             []string         `json:"allow"`                       // at least one rule, see the package comment
	AllowHeader       []string         `json:"allowHeader,omitempty"`       // NAME or NAME=PATTERN; "*" in PATTERN is any run of characters
	AllowNetwork      []string         `json:"allowNetwork,omitempty"`      // CIDR blocks allowed besides public addresses
	AllowHTTP         bool             `json:"allowHttp,omitzero"`          // rules may say http:// for hosts that are not loopback
	Scrub             string           `json:"scrub,omitempty"`             // "on" (also when empty) or "off"
	IdempotencyHeader string           `json:"idempotencyHeader,omitempty"` // header that carries the idempotency key of writes
	Capture           []string         `json:"capture,omitempty"`           // JSON pointers to minted tokens in answers, see Keeper
	Probe             string           `json:"probe,omitempty"`             // a read that shows the credential works: "GET /path", then lines "Name: value"
	Job               `json:",inline"` // how a write's answer names a remote job
	Carry             `json:",inline"`
	Trust             `json:",inline"`
}

// Rules are a Spec, compiled. The zero value allows nothing.
type Rules struct {
	spec    Spec
	allow   []rule
	headers []pair // lower-case name, pattern; bare: any value
	nets    []netip.Prefix
	job     jobRules
	roots   *x509.CertPool // nil: the system's
	pins    [][32]byte     // SHA-256 of a public key; none: any
	mint    *url.URL       // where tokens are minted; nil: nowhere
}

const (
	maxRules = 256
	maxSpec  = 512 << 10
)

// ParseRules reads the JSON form of a Spec. Each error names the field and what to write.
func ParseRules(b []byte) (Rules, error) {
	if len(b) > maxSpec {
		return Rules{}, errors.New("parse rules: longer than 512 KiB")
	}
	var s Spec
	if err := json.Unmarshal(b, &s, json.RejectUnknownMembers(true)); err != nil {
		return Rules{}, fmt.Errorf("parse rules: %w", err)
	}
	return s.compile()
}

func (s Spec) compile() (Rules, error) {
	r := Rules{spec: s}
	if err := s.checkInjection(); err != nil {
		return Rules{}, err
	}
	if s.Scrub != "" && s.Scrub != "on" && s.Scrub != "off" {
		return Rules{}, errors.New(`scrub: write "on" or "off"`)
	}
	if len(s.Allow) == 0 {
		return Rules{}, errors.New(`allow: empty; add at least one rule, like "GET https://api.example.com/v1/**"`)
	}
	if len(s.Allow)+len(s.AllowHeader)+len(s.AllowNetwork) > maxRules {
		return Rules{}, fmt.Errorf("allow: more than %d rules; make them wider or use a second credential", maxRules)
	}
	for i, text := range s.Allow {
		one, err := parseRule(text)
		if err != nil {
			return Rules{}, fmt.Errorf("allow[%d]: %w", i, err)
		}
		if one.origin.scheme == "http" && !s.AllowHTTP && !one.origin.loopback() {
			return Rules{}, fmt.Errorf("allow[%d]: http shows the secret to the network; write https, or say allowHttp", i)
		}
		r.allow = append(r.allow, one)
	}
	for i, text := range s.AllowHeader {
		p, err := s.parseAllowHeader(text)
		if err != nil {
			return Rules{}, fmt.Errorf("allowHeader[%d]: %w", i, err)
		}
		r.headers = append(r.headers, p)
	}
	for i, text := range s.AllowNetwork {
		p, err := netip.ParsePrefix(text)
		if err != nil || p != p.Masked() || p.Addr().Is4In6() {
			return Rules{}, fmt.Errorf("allowNetwork[%d]: write a network like 10.0.0.0/8 or 127.0.0.1/32", i)
		}
		r.nets = append(r.nets, p)
	}
	var err error
	if r.job, err = s.Job.compile(); err != nil {
		return Rules{}, err
	}
	if r.roots, r.pins, err = s.Trust.compile(); err != nil {
		return Rules{}, err
	}
	if r.mint, err = s.mintURL(); err != nil {
		return Rules{}, err
	}
	if err := s.checkCapture(); err != nil {
		return Rules{}, err
	}
	if err := r.checkKeys(); err != nil {
		return Rules{}, err
	}
	return r, r.checkProbe()
}

// checkKeys: a rule can't speak of the query key that carries the secret.
func (r Rules) checkKeys() error {
	if r.spec.Kind != "query" {
		return nil
	}
	for i, one := range r.allow {
		if slices.ContainsFunc(one.query, func(p pair) bool { return sameKey(p.name, r.spec.Param) }) {
			return fmt.Errorf("allow[%d]: query key %s carries the secret; leave it out", i, quote(r.spec.Param))
		}
	}
	return nil
}

// checkProbe: a probe only reads, and the rules allow it.
func (r Rules) checkProbe() error {
	if r.spec.Probe == "" {
		return nil
	}
	_, _, err := r.Probe()
	return err
}

// Probe is the read that shows whether the credential works, sent to the first rule's origin.
func (r Rules) Probe() (Request, Match, error) {
	line, rest, more := strings.Cut(r.spec.Probe, "\n")
	method, path, _ := strings.Cut(line, " ")
	if method != "GET" && method != "HEAD" {
		return Request{}, Match{}, errors.New(`probe: write a read like "GET /user"`)
	}
	path, query, _ := strings.Cut(path, "?")
	in := Input{Target: "probe", Path: path, Method: method}
	if query != "" {
		pairs, err := parseQuery(query)
		if err != nil {
			return Request{}, Match{}, fmt.Errorf("probe: %w", err)
		}
		in.Query = map[string]string{}
		for _, p := range pairs {
			in.Query[p.name] = p.value
		}
	}
	in.Headers = map[string]string{}
	for more {
		line, rest, more = strings.Cut(rest, "\n")
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			return Request{}, Match{}, errors.New(`probe: after the first line write lines like "Accept: text/plain"`)
		}
		in.Headers[name] = value
	}
	q, err := ParseRequest(in)
	if err == nil {
		q, err = q.At(r.allow[0].origin.String())
	}
	if err != nil {
		return Request{}, Match{}, fmt.Errorf("probe: %w", err)
	}
	m, err := r.Match(q)
	if err != nil {
		return Request{}, Match{}, fmt.Errorf("probe: %w", err)
	}
	return q, m, nil
}

// loopback: names that are loopback by definition (RFC 6761). The dial holds them to it.
func (o origin) loopback() bool {
	a, err := netip.ParseAddr(o.host)
	return err == nil && a.IsLoopback() || o.host == "localhost" || strings.HasSuffix(o.host, ".localhost")
}

func (s Spec) parseAllowHeader(text string) (pair, error) {
	name, pattern, has := strings.Cut(text, "=")
	if err := refusedHeader(name); err != nil {
		return pair{}, errors.New(err.(*RequestError).Reason)
	}
	n := strings.ToLower(name)
	if s.sets(n) || strings.EqualFold(n, s.IdempotencyHeader) {
		return pair{}, fmt.Errorf("header %s: the gateway sets it", name)
	}
	if strings.IndexFunc(pattern, func(c rune) bool { return c < ' ' || c > '~' }) >= 0 {
		return pair{}, fmt.Errorf("header %s: its pattern must be printable ASCII", name)
	}
	return pair{name: n, value: pattern, bare: !has}, nil
}

// Spec is what the rules were made from.
func (r Rules) Spec() Spec { return r.spec }

// Origins are the distinct origins of the rules in order; one may have a "*." host.
func (r Rules) Origins() []string {
	var out []string
	for _, one := range r.allow {
		if o := one.origin.String(); !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}

// Strings are the rules as one would type them after --allow.
func (r Rules) Strings() []string {
	out := make([]string, len(r.allow))
	for i, one := range r.allow {
		out[i] = one.String()
	}
	return out
}
