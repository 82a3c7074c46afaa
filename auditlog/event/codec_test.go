package event

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func TestDecodeGivesBackWhatWasEncoded(t *testing.T) {
	for _, r := range table {
		events := []Event{reflect.Zero(r.typ).Interface().(Event), r.filled(0, true)}
		for seed := range uint64(100) {
			events = append(events, r.filled(seed, false))
		}
		for _, e := range events {
			b := Encode(e)
			if again := Encode(e); !bytes.Equal(b, again) {
				t.Fatalf("two encodings:\n%s\n%s", b, again)
			}
			if !bytes.HasPrefix(b, []byte(`{"type":"`+r.name+`"`)) {
				t.Fatalf("%s begins %.60s", r.name, b)
			}
			got, err := Decode(b)
			if err != nil {
				t.Fatalf("%s: %v\n%s", r.name, err, b)
			}
			if !reflect.DeepEqual(got, e) {
				t.Fatalf("%s: got %+v\nwant %+v\nfrom %s", r.name, got, e, b)
			}
			if Type(got) != r.name || IsActivity(got) != (r.fold == activity) {
				t.Fatalf("%s is told as %s, activity %v", r.name, Type(got), IsActivity(got))
			}
		}
	}
}

// Values that JSON has no way to say must still be recorded, and what is recorded must be readable.
func TestEncodeIsTotal(t *testing.T) {
	exit := 0
	zone := time.FixedZone("", 5*3600+1)
	for _, e := range []Event{
		RunOpened{Run: "\xff\xfe", Agent: Peer{Exe: "/bin/\x80"}, Launchers: []Peer{{Exe: "a\xc0b"}}},
		RunOpened{Agent: Peer{Started: time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)}},
		RunOpened{Agent: Peer{Started: time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)}},
		RunOpened{Agent: Peer{Started: time.Date(1, 1, 1, 0, 0, 0, 0, zone)}},
		GrantIssued{IssuedAt: time.Now().In(zone)},
		GrantIssued{ToolScope: []string{}},
		ApprovalGranted{Card: []byte{}},
		ToolFinished{Exit: &exit, Status: -1},
		&RunEnded{Run: "run_x"},
	} {
		b := Encode(e)
		got, err := Decode(b)
		if err != nil {
			t.Errorf("%+v: %v", e, err)
			continue
		}
		if again := Encode(got); !bytes.Equal(again, b) {
			t.Errorf("got %s\nwant %s", again, b)
		}
	}
}

func TestEncodeOfNoEventPanics(t *testing.T) {
	type stranger struct{ RunEnded }
	for name, e := range map[string]Event{"nil": nil, "nil pointer": (*RunEnded)(nil), "not in the table": stranger{}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: encoded", name)
				}
			}()
			Encode(e)
		}()
		if Type(e) != "" || IsActivity(e) {
			t.Errorf("%s: type %q, activity %v", name, Type(e), IsActivity(e))
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	const ok = `{"type":"run_revoked","run":"run_1","operator":"unproved","left":["act_1"]}`
	if _, err := Decode([]byte(ok)); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]string{
		"empty":             ``,
		"null":              `null`,
		"no type":           `{"run":"run_1"}`,
		"only a type":       `{"type":"run_revoked"`,
		"missing fields":    `{"type":"run_revoked"}`,
		"unknown type":      `{"type":"run_opend","run":"run_1"}`,
		"escaped type":      `{"type":"run\u005frevoked","run":"run_1","operator":""}`,
		"type twice":        `{"type":"run_revoked","type":"run_revoked","run":"run_1","operator":""}`,
		"type not first":    `{"run":"run_1","type":"run_revoked","operator":""}`,
		"unknown field":     `{"type":"run_revoked","run":"run_1","operator":"","x":1}`,
		"unknown in a peer": `{"type":"operator_refused","path":"","reason":"","peer":{"processId":1,"x":1}}`,
		"duplicate":         `{"type":"run_revoked","run":"run_1","run":"run_1","operator":""}`,
		"case twin":         `{"type":"run_revoked","run":"run_1","Run":"run_2","operator":""}`,
		"null field":        `{"type":"run_revoked","run":null,"operator":""}`,
		"null list":         `{"type":"run_revoked","run":"run_1","operator":"","left":null}`,
		"empty list":        `{"type":"run_revoked","run":"run_1","operator":"","left":[]}`,
		"other order":       `{"type":"run_revoked","operator":"","run":"run_1"}`,
		"space":             `{"type":"run_revoked", "run":"run_1","operator":""}`,
		"trailing space":    ok + " ",
		"trailing object":   ok + "{}",
		"trailing comma":    `{"type":"run_revoked","run":"run_1","operator":"",}`,
		"cut":               ok[:len(ok)-1],
		"wrong kind":        `{"type":"run_revoked","run":1,"operator":""}`,
		"escaped letter":    `{"type":"run_revoked","run":"\u0072un_1","operator":""}`,
		"invalid UTF-8":     "{\"type\":\"run_revoked\",\"run\":\"\xff\",\"operator\":\"\"}",
		"a number's twin":   `{"type":"process_reparented","run":"","epoch":"","processId":1e0}`,
		"a zero kept":       `{"type":"tool_finished","action":"","run":"","epoch":"","outcome":"","status":0}`,
		"a time elsewhere":  `{"type":"grant_issued","grant":"","run":"","epoch":"","toolScope":[],"credentialScope":[],"issuedAt":"2026-01-02T03:04:05+01:00","expiresWhen":"","approval":"","operator":""}`,
		"a call nested":     `{"type":"authorization_denied","Call":{"action":""},"method":"","reason":""}`,
	} {
		if e, err := Decode([]byte(in)); err == nil {
			t.Errorf("%s: %s is read as %+v", name, in, e)
		} else if e != nil {
			t.Errorf("%s: an event beside the error %v", name, err)
		}
	}
}

// Every single-byte change is either refused or another event: none is lost on the way.
func TestDecodeSeesEveryByte(t *testing.T) {
	for _, r := range table {
		want := r.filled(3, true)
		b := Encode(want)
		for i := range b {
			c := bytes.Clone(b)
			c[i] ^= 1
			if e, err := Decode(c); err == nil && reflect.DeepEqual(e, want) {
				t.Errorf("%s: byte %d changed unnoticed", r.name, i)
			}
			if e, err := Decode(b[:i]); err == nil {
				t.Errorf("%s: %d bytes are read as %+v", r.name, i, e)
			}
		}
	}
}

func TestCallIsFlat(t *testing.T) {
	b := Encode(ToolCalled{Call: Call{Action: "act_1", Run: "run_1", Epoch: "ep_1", Tool: "http_request"}, Digest: "sha256:00", Decision: "granted", Grant: "gr_1"})
	const want = `{"type":"tool_called","action":"act_1","run":"run_1","epoch":"ep_1","tool":"http_request","digest":"sha256:00","decision":"granted","grant":"gr_1"}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

// What was once written must be read for ever: each event, empty and full, as it was first encoded.
func TestVectors(t *testing.T) {
	path := filepath.Join("testdata", "events.jsonl")
	var made bytes.Buffer
	for _, r := range table {
		for _, e := range []Event{reflect.Zero(r.typ).Interface().(Event), r.filled(7, true)} {
			made.Write(Encode(e))
			made.WriteByte('\n')
		}
	}
	if *update {
		if err := os.WriteFile(path, made.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(kept), "\n"), "\n")
	if len(lines) != 2*len(table) {
		t.Fatalf("%d vectors for %d events (go test -update writes them)", len(lines), len(table))
	}
	for i, l := range lines {
		e, err := Decode([]byte(l))
		if err != nil {
			t.Errorf("line %d: %v", i+1, err)
		} else if want := table[i/2].name; Type(e) != want {
			t.Errorf("line %d is a %s, want %s", i+1, Type(e), want)
		}
	}
}

func TestSubject(t *testing.T) {
	const text = "01JQ7R4S4S0QJ7GZP1S2ABCDEF"
	want := Subject("act_" + text)
	if want == ([16]byte{}) || want[0] != 0x01 {
		t.Fatalf("got %x", want)
	}
	for id, ok := range map[string]bool{
		"run_" + text: true, "ep_" + text: true, "gr_" + text: true, "ap_" + text: true,
		"": false, "act_": false, text: false, "_" + text: false, "Act_" + text: false, "act__" + text: false,
		"act_" + strings.ToLower(text): false, "act_" + text[1:]: false, "act_" + text + "0": false, "act_8" + text[1:]: false,
		"act_" + text[:25] + "U": false, "act_" + text[:25] + "I": false, "act " + text: false, "a1_" + text: false,
	} {
		got := Subject(id)
		if (got == want) != ok || (!ok && got != [16]byte{}) {
			t.Errorf("Subject(%q) = %x", id, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, r := range table {
		f.Add(Encode(r.filled(1, true)))
	}
	f.Add([]byte(`{"type":"run_ended","run":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := Decode(b)
		if err != nil {
			return
		}
		if again := Encode(e); !bytes.Equal(again, b) {
			t.Fatalf("%s\nis read as %+v\nand said as %s", b, e, again)
		}
		for _, l := range lines(Item{1, time.Unix(1, 0), e}) {
			checkShown(t, l)
			var v jsontext.Value
			if err := json.Unmarshal(l.JSON(), &v); err != nil {
				t.Fatalf("%s: %v", l.JSON(), err)
			}
		}
	})
}
