package httpexec

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Job says how a write's answer names the remote job that it started, and how that job is asked for and cancelled.
//
// ID is "json:/pointer" (RFC 6901, in a JSON body), "header:NAME" or "location" (the Location header: the segment where
// Status has {id}, else the last one). Status and Cancel are "METHOD PATH" on the origin that answered: PATH is written
// as in a rule, without wildcards, and one of its segments is {id}. They are rules of their own: what they say may be
// sent whatever the other rules allow, and nothing else.
type Job struct {
	ID     string `json:"jobId,omitempty"`
	Status string `json:"jobStatus,omitempty"`
	Cancel string `json:"jobCancel,omitempty"`
}

// What can be asked of a job.
const (
	JobStatus = "status"
	JobCancel = "cancel"
)

const (
	jobID   = "{id}"
	maxID   = 128
	jobBody = 1 << 20 // bytes of an answer in which an id is looked for
)

// jobRules are a Job, compiled. The zero value names none.
type jobRules struct {
	pointer        jsontext.Pointer
	header         string // canonical spelling not needed: compared without case
	location       bool
	status, cancel *jobRule
}

// jobRule is a request template.
type jobRule struct {
	method string
	segs   []string // one is jobID
	query  []pair
}

func (j Job) compile() (r jobRules, err error) {
	if j == (Job{}) {
		return r, nil
	}
	kind, of, _ := strings.Cut(j.ID, ":")
	switch {
	case kind == "json" && jsontext.Pointer(of).IsValid() && of != "":
		r.pointer = jsontext.Pointer(of)
	case kind == "header" && token(of) && !hiddenHeader(of):
		r.header = of
	case j.ID == "location":
		r.location = true
	default:
		return jobRules{}, errors.New(`job id: write "json:/id", "header:NAME" or "location"`)
	}
	if r.status, err = parseJobRule(j.Status); err != nil {
		return jobRules{}, fmt.Errorf("job status: %w", err)
	}
	if r.cancel, err = parseJobRule(j.Cancel); err != nil {
		return jobRules{}, fmt.Errorf("job cancel: %w", err)
	}
	if r.status != nil && effectOf(r.status.method) != "read" {
		return jobRules{}, errors.New("job status: asking changes nothing; write GET")
	}
	if r.cancel != nil && effectOf(r.cancel.method) == "read" {
		return jobRules{}, errors.New("job cancel: a read cancels nothing; write DELETE or POST")
	}
	return r, nil
}

// parseJobRule reads METHOD PATH[?QUERY]. Only the canonical spelling is taken.
func parseJobRule(s string) (*jobRule, error) {
	if s == "" {
		return nil, nil
	}
	method, path, ok := strings.Cut(s, " ")
	if !ok || !validMethod(method) || !strings.HasPrefix(path, "/") || len(s) > maxURL {
		return nil, errors.New(`write METHOD PATH, like "GET /v1/jobs/{id}"`)
	}
	path, query, _ := strings.Cut(path, "?")
	r := &jobRule{method: method, segs: strings.Split(path[1:], "/")}
	ids := 0
	for i, seg := range r.segs {
		if seg == jobID {
			ids++
			continue
		}
		if strings.ContainsAny(seg, "*{}") {
			return nil, errors.New("{id} is a whole segment, and the only one that is left open")
		}
		c, err := canonicalPath("/" + seg)
		if err == nil && seg == "" && i != len(r.segs)-1 {
			err = errors.New("path holds an empty segment")
		}
		if err == nil && c[0] != seg {
			err = fmt.Errorf("write %q", c[0])
		}
		if err != nil {
			return nil, err
		}
	}
	if ids != 1 {
		return nil, errors.New("one segment of the path must be {id}")
	}
	var err error
	r.query, err = parseQuery(query)
	return r, err
}

// String is the template as it is written.
func (r *jobRule) String() string {
	s := r.method + " /" + strings.Join(r.segs, "/")
	if len(r.query) > 0 {
		s += "?" + encodeQuery(r.query)
	}
	return s
}

// validID tells what may stand in a path in the place of {id}: one plain segment that no server reads as another.
func validID(id string) bool {
	if id == "" || len(id) > maxID || id[0] == '.' || strings.Contains(id, "..") {
		return false
	}
	for i := range len(id) {
		if c := id[i]; !unreserved(c) || c == '~' {
			return false
		}
	}
	return true
}

// Job returns the request that asks for a job (JobStatus) or cancels it (JobCancel), and the match that allows it. The
// origin is the one that named the id. The error is a *RequestError: invalid_request where the rules have no such request.
func (r Rules) Job(verb, origin, id string) (Request, Match, error) {
	t := r.job.status
	if verb == JobCancel {
		t = r.job.cancel
	}
	switch {
	case t == nil:
		return Request{}, Match{}, invalid("the credential's rules name no request for a job's " + verb)
	case !validID(id):
		return Request{}, Match{}, invalid("the job's id is not one that can stand in a path")
	}
	segs := slices.Clone(t.segs)
	segs[slices.Index(segs, jobID)] = id
	q, err := ParseRequest(Input{URL: origin + "/" + strings.Join(segs, "/"), Method: t.method})
	if err != nil {
		return Request{}, Match{}, err
	}
	if !slices.ContainsFunc(r.allow, func(one rule) bool { return one.origin.covers(q.origin) }) {
		return Request{}, Match{}, &RequestError{codeMismatch, "the job is not at an origin of this credential's rules"}
	}
	q.query = t.query
	return q, Match{rules: &r, rule: &rule{methods: []string{t.method}, origin: q.origin, segs: segs}, job: true}, nil
}

// jobReader passes an answer's body on and keeps as much of it as an id is looked for in.
type jobReader struct {
	w    io.Writer
	kept []byte
	over bool
}

func (j *jobReader) Write(p []byte) (int, error) {
	if j.over = j.over || len(j.kept)+len(p) > jobBody; j.over {
		j.kept = nil
	} else {
		j.kept = append(j.kept, p...)
	}
	return j.w.Write(p)
}

// starts tells whether a request may start a job: a write, but not one that is itself about a job.
func (m Match) starts(q Request) bool {
	return !m.job && m.rules.job != (jobRules{}) && q.Effect() == "write"
}

// named makes a result accepted whose answer names a job.
func (j jobRules) named(r *Result, q Request, body []byte) {
	if r.Outcome != Confirmed || r.Code < 200 || r.Code > 299 {
		return
	}
	var id string
	switch {
	case j.pointer != "":
		if r.Complete {
			id = jsonID(body, j.pointer)
		}
	case j.location:
		id = j.locationID(q, r.Headers["Location"])
	default:
		for name, v := range r.Headers {
			if strings.EqualFold(name, j.header) {
				id = v
			}
		}
	}
	if validID(id) {
		r.Outcome, r.JobID = Accepted, id
	}
}

// jsonID is the string or whole number at a place of a JSON text; empty if there is none.
func jsonID(body []byte, at jsontext.Pointer) (id string) {
	d := jsontext.NewDecoder(strings.NewReader(string(body)))
	for {
		t, err := d.ReadToken()
		if err == io.EOF {
			return id
		}
		if err != nil {
			return ""
		}
		if in, n := d.StackIndex(d.StackDepth()); in == '{' && n%2 == 1 || d.StackPointer() != at {
			continue // a name, or another place
		}
		switch s := t.String(); t.Kind() {
		case '"':
			id = s
		case '0':
			if strings.Trim(s, "0123456789") == "" {
				id = s
			}
		}
	}
}

// locationID is the id that a Location names, if that is at the origin that answered: another host's id is no handle
// here, and asking our own origin for it would name somebody else's job.
func (j jobRules) locationID(q Request, location string) string {
	base, err := url.Parse(q.URL())
	if err != nil || location == "" {
		return ""
	}
	u, err := url.Parse(location)
	if err != nil || u.User != nil || u.Opaque != "" {
		return ""
	}
	for _, s := range strings.Split(u.Path, "/") {
		if s == "." || s == ".." {
			return "" // where that leads is the service's to say, not ours to guess
		}
	}
	u = base.ResolveReference(u)
	if at, err := originOf(u); err != nil || at != q.origin {
		return ""
	}
	segs := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	if t := j.status; t != nil {
		if len(segs) != len(t.segs) {
			return ""
		}
		at := slices.Index(t.segs, jobID)
		for i, s := range t.segs {
			if i != at && s != segs[i] {
				return ""
			}
		}
		return segs[at]
	}
	return segs[len(segs)-1]
}
