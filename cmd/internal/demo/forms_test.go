package demo

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"sallyport/sshexec/sshtest"
)

func TestFormsFindAndOnlyThat(t *testing.T) {
	const value = "demo+AZ09/az~_-=x"
	s := secret{name: "token", value: []byte(value)}
	quoted, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		value, "xx" + value + "yy", string(quoted), strings.ReplaceAll(value, "/", `\/`), url.QueryEscape(value),
		base64.StdEncoding.EncodeToString([]byte(value)), base64.URLEncoding.EncodeToString([]byte("user:" + value)),
		base64.RawStdEncoding.EncodeToString([]byte("ab" + value + "cd")), "64656d6f2b415a30392f617a7e5f2d3d78", "64656D6F2B415A30392F617A7E5F2D3D78",
		value[:8] + "\n" + value[8:], value[:8] + `\n` + value[8:],
	} {
		if len(s.in([]byte(text))) == 0 {
			t.Errorf("not found in %q", text)
		}
	}
	for _, text := range []string{"", "demo", value[:len(value)-1], value[1:], strings.ToUpper(value), "Bearer [redacted]",
		base64.StdEncoding.EncodeToString([]byte("demo+AZ09/bz~_-=x"))} {
		if found := s.in([]byte(text)); len(found) > 0 {
			t.Errorf("found in %q, as %s", text, found)
		}
	}
}

// The seed taken out of a key file is the one that makes its public half, and the file is found by it.
func TestKeySeed(t *testing.T) {
	file, authorized, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	seed, err := keySeed(file, authorized)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := base64.StdEncoding.DecodeString(strings.Fields(authorized)[1])
	if err != nil || !bytes.HasSuffix(pub, ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)) {
		t.Errorf("another key's seed, or %v", err)
	}
	s := secret{name: "key", value: seed, file: file}
	for _, p := range s.plants() {
		if len(s.in(p.text)) == 0 {
			t.Errorf("not found: %s", p.name)
		}
	}
	if found := s.in([]byte(authorized)); len(found) > 0 {
		t.Errorf("found in the public half: %s", found)
	}
	for _, bad := range []struct{ file, authorized string }{{"", authorized}, {string(file), "x"}, {string(file), "ssh-ed25519 !"}, {string(file), "ssh-ed25519 " + base64.StdEncoding.EncodeToString(make([]byte, 51))}} {
		if _, err := keySeed([]byte(bad.file), bad.authorized); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
