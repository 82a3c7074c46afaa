package console_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/client"
	"sallyport/gateway/console/browser"
)

// careful adds a credential that wants a passkey for each use, and says where it may be used.
func (s *stand) careful() string {
	s.t.Helper()
	up := httptest.NewServer(http.HandlerFunc(s.answer))
	s.t.Cleanup(up.Close)
	v := client.Salt([]byte("tok-91c2b7d05e3f4a88"))
	s.op(api.PathCredentialAdd, proof(), api.CredentialArgs{Name: "careful", Kind: "bearer", Confirm: "passkey", ValueLength: v.Len(), ValueDigest: v.Digest(),
		Rules: api.HTTPRules{Allow: []string{"POST " + up.URL + "/**"}, AllowHTTP: true, AllowNetwork: []string{"127.0.0.0/8"}}}, v, nil)
	return up.URL
}

// A passkey is made on its page, by a link that works once, and then says yes to cards in the browser. What it said yes to
// verifies from a copy of the log with no gateway, and no byte of that can be changed unseen.
func TestPasskeyInBrowser(t *testing.T) {
	b := browser.Start(t)
	s := newStand(t)
	at := s.careful()
	var e api.Enrolment
	s.op(api.PathPasskeyAdd, proof(), api.PasskeyArgs{Name: "laptop"}, nil, &e)
	url := s.url()
	b.Open(e.URL)
	b.Reads("It will be named laptop")
	auth := b.Authenticator()
	b.Gallery("passkey")
	auth.Knows(false)
	b.Press("main", "Make the passkey")
	b.Reads("could not verify you")
	auth.Knows(true)
	b.Press("main", "Make the passkey")
	b.Reads("The passkey is enrolled", "laptop signs with ES256")
	b.Gallery("passkey-done")
	b.Open("about:blank")
	b.Open(e.URL) // I14: usable once
	b.Reads("This link is over", "sp passkey add")

	b.Open(url)
	b.Reads("Nothing waits")
	browser.Eval[string](b, `(() => { window.sent = []; const f = window.fetch; window.fetch = (u, o) => { if (o?.body instanceof Uint8Array && u.endsWith('approval/grant')) sent.push(o); return f(u, o); }; return ''; })()`)
	agent := s.agent()
	approve := func(path, scope string) chan answered {
		t.Helper()
		call := s.callAt(agent, "POST", at+path)
		b.Reads(path)
		b.Press("article.card", "Approve")
		b.Until("the dialog takes no passphrase", `document.querySelector('dialog.proof') && !document.querySelector('dialog.proof input')`)
		return call
	}
	call := approve("/deploy/1", "use")
	b.Gallery("proof-passkey")
	for name, lie := range map[string][3]bool{"not verified": {true, false, false}, "not there": {false, true, false}, "no signature": {false, false, true}} {
		auth.Lies(lie[0], lie[1], lie[2])
		b.Press("dialog.proof", "Use a passkey")
		b.Until(name+" is refused", `!document.querySelector('dialog.proof') && document.querySelector('.notice.fault')`)
		browser.Eval[string](b, `(document.querySelectorAll('.notice.fault').forEach(x => x.remove()), '')`)
		b.Press("article.card", "Approve")
	}
	auth.Lies(false, false, false)
	auth.Knows(false)
	b.Press("dialog.proof", "Use a passkey")
	b.Reads("could not verify you")
	auth.Knows(true)
	b.Press("dialog.proof", "Use a passkey")
	if got := s.wait(call); got != "confirmed" {
		t.Fatalf("approved by passkey: %s", got)
	}
	b.Reads("Approved.", "Nothing waits")

	// I13, I14: what was signed for one card says nothing to it again, and nothing to another one.
	call = approve("/deploy/2", "use")
	replay := func(args string) string {
		return browser.Eval[string](b, `(async () => {
			const o = sent.at(-1), e = JSON.parse(new TextDecoder().decode(o.body));
			const args = `+args+`;
			const r = await fetch('/v1/op/approval/grant', { ...o, headers: { ...o.headers, 'Request-Id': crypto.randomUUID() }, body: JSON.stringify({ ...e, args }) + '\n' });
			return (await r.json()).error;
		})()`)
	}
	if got := replay(`e.args`); got != "not_found" && got != "proof_wrong" {
		t.Errorf("the same once more: %s", got)
	}
	sentNow := `await (async () => { const t = await fetch('/v1/op/approval/table', { ...o, headers: { ...o.headers, 'Request-Id': crypto.randomUUID() }, body: '{"args":{}}\n' }).then(r => r.json()); return { id: t.cards[0].id, cardDigest: t.cards[0].cardDigest, scope: 'use' }; })()`
	if got := replay(sentNow); got != "proof_wrong" {
		t.Errorf("for another card: %s", got)
	}
	b.Press("dialog.proof", "Use a passkey")
	if got := s.wait(call); got != "confirmed" {
		t.Fatalf("the second: %s", got)
	}
	if got := s.arrivals(); !slices.Equal(got, []string{"POST /deploy/1", "POST /deploy/2"}) {
		t.Fatalf("arrived: %v", got)
	}
	b.Until("the answer was told", `document.body.innerText.includes('Nothing waits')`)
	for _, c := range b.Complaints() {
		if !strings.Contains(c, "40") { // refused requests are told by the browser, as they should be
			t.Errorf("the page complained: %q", c)
		}
	}
	s.stop()
	offline(t, s.dir, s.created.ReaderIdentity)
}

// offline checks signed approvals from a copy of a log, and that each changed byte is seen, with the place.
func offline(t *testing.T, dir, reader string) {
	t.Helper()
	copied := t.TempDir()
	if err := os.CopyFS(filepath.Join(copied, "audit"), os.DirFS(filepath.Join(dir, "audit"))); err != nil {
		t.Fatal(err)
	}
	pub, err := os.ReadFile(filepath.Join(dir, "audit.pub"))
	if err != nil {
		t.Fatal(err)
	}
	log := os.DirFS(filepath.Join(copied, "audit"))
	var items []event.Item
	at := -1
	for r, err := range auditlog.Read(log, pub, reader) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := event.Decode(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		if yes, ok := e.(event.ApprovalGranted); ok && yes.Proof == "passkey" && at < 0 {
			at = len(items)
		}
		items = append(items, event.Item{Seq: r.Seq, Time: r.Time, Event: e})
	}
	if v := event.Check(slices.Values(items)); v.Signed != 2 || v.Unsigned != 0 || len(v.Breaches) > 0 || at < 0 {
		t.Fatalf("%+v", v)
	}
	yes := items[at].Event.(event.ApprovalGranted)
	for name, change := range map[string]func(*event.ApprovalGranted){
		"the card":        func(e *event.ApprovalGranted) { e.Card = changed(e.Card) },
		"the request":     func(e *event.ApprovalGranted) { e.Args = changed(e.Args) },
		"the signature":   func(e *event.ApprovalGranted) { e.Assertion.Signature = changed(e.Assertion.Signature) },
		"what was signed": func(e *event.ApprovalGranted) { e.Assertion.ClientDataJSON = changed(e.Assertion.ClientDataJSON) },
		"who signed":      func(e *event.ApprovalGranted) { e.Assertion.CredentialID = changed(e.Assertion.CredentialID) },
	} {
		other, all := yes, slices.Clone(items)
		change(&other)
		all[at].Event = other
		v := event.Check(slices.Values(all))
		if len(v.Breaches) == 0 || v.Breaches[0].Seq[0] != items[at].Seq {
			t.Errorf("%s changed in record %d: %+v", name, items[at].Seq, v.Breaches)
		}
	}
	// And in the file itself, which nobody can open without the reader's identity.
	files, err := filepath.Glob(filepath.Join(copied, "audit", "*.seg"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	mine := bytes.Clone(whole)
	mine[len(mine)/2] ^= 1
	if err := os.WriteFile(files[0], mine, 0o600); err != nil {
		t.Fatal(err)
	}
	rep, err := auditlog.Verify(log, pub, auditlog.VerifyOptions{})
	if err != nil || rep.Verdict != "broken" || rep.Seq == 0 {
		t.Errorf("a byte of the file changed: %+v %v", rep, err)
	}
}

func changed(b []byte) []byte {
	out := bytes.Clone(b)
	out[len(out)/2] ^= 1
	return out
}

// callAt is call for a whole URL.
func (s *stand) callAt(c *client.Client, method, url string) chan answered {
	out := make(chan answered, 1)
	args, err := json.Marshal(api.HTTPArgs{URL: url, Method: method})
	if err != nil {
		s.t.Fatal(err)
	}
	go func() {
		a, err := c.Act(s.t.Context(), api.ActionRequest{Tool: api.ToolHTTP, Args: args})
		out <- answered{a, err}
	}()
	return out
}

// The page's canonical form is the gateway's, for whatever a request may hold.
func TestCanonicalInBrowser(t *testing.T) {
	b := browser.Start(t)
	s := newStand(t)
	b.Open(s.url())
	b.Reads("Nothing waits")
	for _, doc := range []string{`{}`, `{"b":1,"a":[true,false,null,{"z":"","y":"é\u2028\ud83d\ude00\"\\\/\u0007"}]}`, `{"n":[0,-0,1e21,1e-7,333333333.33333329,4.5,1000000000000000128]}`,
		`{"\ud83d\ude00":1,"\ufb33":2,"\u0080":3,"1":4,"10":5,"2":6,"\r":7,"</script>":8}`} {
		v := jsontext.Value(doc)
		if err := v.Canonicalize(); err != nil {
			t.Fatal(err)
		}
		got := browser.Eval[string](b, fmt.Sprintf(`import('/assets/passkey.js').then(m => m.canonical(JSON.parse(%q)))`, doc))
		if got != string(v) {
			t.Errorf("%s\nbrowser %s\ngateway %s", doc, got, v)
		}
	}
}
