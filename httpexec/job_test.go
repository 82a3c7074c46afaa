package httpexec

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func jobRulesOf(t *testing.T, origin string, j Job) (Rules, error) {
	t.Helper()
	return Spec{Kind: "bearer", Allow: []string{"POST " + origin + "/v1/**"}, AllowNetwork: []string{"127.0.0.0/8"}, Job: j}.compile()
}

func TestJobRules(t *testing.T) {
	for _, c := range []struct {
		job Job
		bad string // in the error; empty: taken
	}{
		{Job{ID: "json:/id", Status: "GET /v1/jobs/{id}", Cancel: "DELETE /v1/jobs/{id}"}, ""},
		{Job{ID: "json:/data/0/id"}, ""},
		{Job{ID: "header:X-Request-Id", Status: "GET /v1/jobs/{id}/state?full=1", Cancel: "POST /v1/jobs/{id}/cancel"}, ""},
		{Job{ID: "location", Status: "HEAD /{id}"}, ""},
		{Job{Status: "GET /v1/jobs/{id}"}, "job id"},
		{Job{ID: "json:id"}, "job id"},
		{Job{ID: "json:"}, "job id"},
		{Job{ID: "header:"}, "job id"},
		{Job{ID: "header:Set-Cookie"}, "job id"},
		{Job{ID: "cookie:a"}, "job id"},
		{Job{ID: "location", Status: "POST /v1/jobs/{id}"}, "changes nothing"},
		{Job{ID: "location", Cancel: "GET /v1/jobs/{id}"}, "cancels nothing"},
		{Job{ID: "location", Status: "GET /v1/jobs"}, "must be {id}"},
		{Job{ID: "location", Status: "GET /v1/{id}/{id}"}, "must be {id}"},
		{Job{ID: "location", Status: "GET /v1/jobs/x{id}"}, "whole segment"},
		{Job{ID: "location", Status: "GET /v1/*/{id}"}, "whole segment"},
		{Job{ID: "location", Status: "GET /v1/../{id}"}, "dot or empty"},
		{Job{ID: "location", Status: "GET //{id}"}, "empty segment"},
		{Job{ID: "location", Status: "GET /v1/%2e/{id}"}, "%2e"},
		{Job{ID: "location", Status: "GET /v1/%61/{id}"}, `write "a"`},
		{Job{ID: "location", Status: "GET /{id}?_method=DELETE"}, "overrides the method"},
		{Job{ID: "location", Status: "GET https://other.example/{id}"}, "METHOD PATH"},
		{Job{ID: "location", Status: "/v1/{id}"}, "METHOD PATH"},
	} {
		r, err := jobRulesOf(t, "https://api.example.com", c.job)
		if (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%+v: %v, want %q", c.job, err, c.bad)
		}
		if err == nil && r.job.status != nil && r.job.status.String() != c.job.Status {
			t.Errorf("%q printed as %q", c.job.Status, r.job.status)
		}
	}
}

func TestJobRequest(t *testing.T) {
	r, err := jobRulesOf(t, "https://api.example.com", Job{ID: "json:/id", Status: "GET /v1/jobs/{id}?full=1", Cancel: "DELETE /v1/jobs/{id}"})
	if err != nil {
		t.Fatal(err)
	}
	q, m, err := r.Job(JobStatus, "https://api.example.com", "a-1._B")
	if err != nil || q.Method() != "GET" || q.URL() != "https://api.example.com/v1/jobs/a-1._B?full=1" || m.rule.allows(q) != "" || m.starts(q) {
		t.Errorf("status: %s %s, %v", q.Method(), q.URL(), err)
	}
	if q, _, err = r.Job(JobCancel, "https://api.example.com", "7"); err != nil || q.Method() != "DELETE" || q.URL() != "https://api.example.com/v1/jobs/7" {
		t.Errorf("cancel: %s %s, %v", q.Method(), q.URL(), err)
	}
	for _, id := range []string{"", ".", "..", ".a", "a..b", "a/b", "a%2Fb", "a b", "a?b", "a#b", "a;b", "ä", "~a", "a~", strings.Repeat("a", 129)} {
		if _, _, err := r.Job(JobStatus, "https://api.example.com", id); err == nil {
			t.Errorf("id %q was taken", id)
		}
	}
	if _, _, err := r.Job(JobStatus, "https://other.example", "7"); err == nil {
		t.Error("another origin was taken")
	}
	if none, err := jobRulesOf(t, "https://api.example.com", Job{ID: "json:/id"}); err != nil {
		t.Error(err)
	} else if _, _, err := none.Job(JobCancel, "https://api.example.com", "7"); err == nil {
		t.Error("a cancel without a template was made")
	}
}

func TestJobIsNamedByTheAnswer(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/v1/json":
			io.WriteString(w, q.Header.Get("Accept")) // the test says what is answered
		case "/v1/created":
			w.Header().Set("Location", q.Header.Get("Accept"))
			w.Header().Set("X-Job", q.Header.Get("Accept"))
			w.WriteHeader(http.StatusCreated)
		case "/v1/failed":
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"id":"j1"}`)
		case "/v1/long":
			io.WriteString(w, `{"id":"j1","pad":"`+strings.Repeat("x", 2<<20)+`"}`)
		}
	}))
	defer srv.Close()
	for _, c := range []struct{ id, path, method, says, want string }{
		{"json:/id", "/v1/json", "POST", `{"id":"j1"}`, "j1"},
		{"json:/id", "/v1/json", "POST", `{"id":42}`, "42"},
		{"json:/a/1/id", "/v1/json", "POST", `{"a":[{"id":"no"},{"id":"yes"}]}`, "yes"},
		{"json:/id", "/v1/json", "POST", `{"id":{"id":"x"}}`, ""},
		{"json:/id", "/v1/json", "POST", `{"id":true}`, ""},
		{"json:/id", "/v1/json", "POST", `{"id":4.5}`, ""},
		{"json:/id", "/v1/json", "POST", `{"id":-4}`, ""},
		{"json:/id", "/v1/json", "POST", `{"id":"a/../b"}`, ""},
		{"json:/id", "/v1/json", "POST", `{"id":"j1","id":"j2"}`, ""},
		{"json:/id", "/v1/json", "POST", `{"id":"j1"`, ""},
		{"json:/id", "/v1/json", "POST", `no json`, ""},
		{"json:/id", "/v1/failed", "POST", "", ""},
		{"json:/id", "/v1/long", "POST", "", ""},
		{"json:/id", "/v1/json", "PUT", `{"id":"j1"}`, "j1"},
		{"json:/id", "/v1/json", "GET", `{"id":"j1"}`, ""},
		{"json:/id", "/v1/json", "DELETE", `{"id":"j1"}`, ""},
		{"header:x-job", "/v1/created", "POST", "j7", "j7"},
		{"header:x-job", "/v1/created", "POST", "j 7", ""},
		{"location", "/v1/created", "POST", "/v1/jobs/j8", "j8"},
		{"location", "/v1/created", "POST", srv.URL + "/v1/jobs/j8?x=1", "j8"},
		{"location", "/v1/created", "POST", "jobs/j8", "j8"},
		{"location", "/v1/created", "POST", "https://elsewhere.example/v1/jobs/j8?x=1", ""}, // H34
		{"location", "/v1/created", "POST", "//elsewhere.example/v1/jobs/j8", ""},
		{"location", "/v1/created", "POST", "http://127.0.0.1:1/v1/jobs/j8", ""},
		{"location", "/v1/created", "POST", strings.Replace(srv.URL, "http:", "https:", 1) + "/v1/jobs/j8", ""},
		{"location", "/v1/created", "POST", strings.Replace(srv.URL, "http://", "http://a@", 1) + "/v1/jobs/j8", ""},
		{"location", "/v1/created", "POST", "/v2/jobs/j8", ""},
		{"location", "/v1/created", "POST", "/v1/jobs/..", ""},
		{"location", "/v1/created", "POST", "/v1/jobs/a%2Fb", ""},
	} {
		j := Job{ID: c.id, Status: "GET /v1/jobs/{id}"}
		r, err := Spec{Kind: "bearer", Allow: []string{"GET,POST,PUT,DELETE " + srv.URL + "/v1/**"}, AllowNetwork: []string{"127.0.0.0/8"}, Job: j}.compile()
		if err != nil {
			t.Fatal(err)
		}
		q, err := ParseRequest(Input{URL: srv.URL + c.path, Method: c.method, Headers: map[string]string{"Accept": c.says}})
		if err != nil {
			t.Fatal(err)
		}
		m, err := r.Match(q)
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		cl := NewClient(ClientOptions{})
		res, err := cl.Do(t.Context(), t.Context(), q, m, Injection{Credential: "c", Version: 1, Secret: []byte("tok-5f2b9c71e04d4a6b")}, &body)
		cl.Close()
		if err != nil {
			t.Fatal(err)
		}
		want := Confirmed
		if c.want != "" {
			want = Accepted
		}
		if res.JobID != c.want || res.Outcome != want {
			t.Errorf("%s %s %q %s: job %q, %s", c.id, c.method, c.says, c.path, res.JobID, res.Outcome)
		}
		if c.path == "/v1/json" && body.String() != c.says {
			t.Errorf("the body became %q", body.String())
		}
	}
}
