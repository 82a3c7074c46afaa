package sshexec_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"sallyport/sshexec"
)

func TestParseHostKeys(t *testing.T) {
	const other = edEncPublic
	for name, x := range map[string]struct {
		file string
		addr string
		want []string
	}{
		".pub":                {edPublic + " root@web\n", "web.example:2222", []string{edPublic}},
		".pub of two, sorted": {ecPublic + "\n\n# c\n" + edPublic + "\r\n" + ecPublic, "web.example:2222", []string{edPublic, ecPublic}},
		"port 22":             {"web.example " + edPublic + " c\n[web.example]:2222 " + other, "web.example:22", []string{edPublic}},
		"other port":          {"web.example " + edPublic + "\n[web.example]:2222 " + other, "web.example:2222", []string{other}},
		"name begins ssh-":    {"ssh-gw.example " + edPublic, "ssh-gw.example:22", []string{edPublic}},
		"upper case":          {"Web.Example " + edPublic, "WEB.example:22", []string{edPublic}},
		"list":                {"a.example,web.example,10.0.0.1 " + edPublic, "10.0.0.1:22", []string{edPublic}},
		"pattern":             {"*.example " + edPublic, "web.example:22", []string{edPublic}},
		"question mark":       {"we?.example " + edPublic, "web.example:22", []string{edPublic}},
		"port pattern":        {"[web.example]:* " + edPublic, "web.example:2222", []string{edPublic}},
		"IPv6":                {"[2001:db8::1]:2222 " + edPublic, "[2001:db8::1]:2222", []string{edPublic}},
		"negated elsewhere":   {"*.example,!db.example " + edPublic, "web.example:22", []string{edPublic}},
		"hashed":              {hashedLine + " " + edPublic, "web.example:2222", []string{edPublic}},
		"others are skipped":  {"db.example " + other + "\n@revoked db.example " + edPublic + "\nweb.example " + edPublic, "web.example:22", []string{edPublic}},
		"CA is passed over":   {"@cert-authority *.example " + other + "\nweb.example " + edPublic, "web.example:22", []string{edPublic}},
	} {
		got, err := sshexec.ParseHostKeys([]byte(x.file), x.addr)
		if err != nil || !slices.Equal(got, x.want) {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

// HMAC-SHA1 of "[web.example]:2222" under a salt of twenty bytes.
const hashedLine = "|1|AAECAwQFBgcICQoLDA0ODxAREhM=|AA90pYY0qAzxMsB8H9rmo0NHsYQ="

func TestRefusedHostKeys(t *testing.T) {
	shortRSA := "ssh-rsa " + base64.StdEncoding.EncodeToString([]byte("\x00\x00\x00\x07ssh-rsa\x00\x00\x00\x03\x01\x00\x01\x00\x00\x00\x81\x00"+strings.Repeat("\xff", 128)))
	for name, x := range map[string]struct{ file, want string }{
		"empty":            {"", "no key for"},
		"other host":       {"db.example " + edPublic, "no key for"},
		"negated":          {"*.example,!web.example " + edPublic, "no key for"},
		"CA alone":         {"@cert-authority *.example " + edPublic, "no key for"},
		"S03 revoked":      {"web.example " + edPublic + "\n@revoked * " + edEncPublic, "@revoked"},
		"itself revoked":   {"@revoked web.example " + edPublic, "@revoked"},
		"revoked and CA":   {"@cert-authority * " + ecPublic + "\n@revoked * " + ecPublic, "@revoked"},
		"private":          {string(keyFile(t, "ed25519")), "line 1"},
		"rubbish":          {"web.example ssh-ed25519", "line 1"},
		"rubbish key":      {"ssh-ed25519 AAAAC3Nz", "line 1"},
		"options":          {`command="id" ` + edPublic, "no key for"},
		"short RSA":        {shortRSA, "1024 bits"},
		"short RSA, known": {"web.example " + shortRSA, "1024 bits"},
		"wrong type word":  {strings.Replace(edPublic, "ssh-ed25519", "ssh-rsa", 1), ""},
		"huge":             {strings.Repeat("#\n", sshexec.MaxHostKeyFile), "over"},
	} {
		got, err := sshexec.ParseHostKeys([]byte(x.file), "web.example:22")
		if x.want == "" { // a mismatch of the word and the blob must not confuse the pin
			if err == nil && !slices.Equal(got, []string{edPublic}) {
				t.Errorf("%s: %q", name, got)
			}
			continue
		}
		if code(err) != "invalid_request" || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %q %v, want %q", name, got, err, x.want)
		}
	}
}

func TestFingerprint(t *testing.T) {
	const want = "SHA256:sfTqkt2i/QMpI63/ryoGgPWSIG3T7/2fGinzWXW2jCI"
	if got, err := sshexec.Fingerprint(edPublic); err != nil || got != want {
		t.Errorf("%q %v", got, err)
	}
	if _, err := sshexec.Fingerprint("ssh-ed25519"); code(err) != "invalid_request" {
		t.Errorf("%v", err)
	}
}

func TestTargetCheck(t *testing.T) {
	good := sshexec.Target{Name: "web", Address: "web.example:22", User: "deploy", HostKeys: []string{edPublic}, AllowNetwork: []string{"10.0.0.0/8"}, Shell: "posix"}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*sshexec.Target){
		"name":      func(g *sshexec.Target) { g.Name = "" },
		"address":   func(g *sshexec.Target) { g.Address = "web.example" },
		"user":      func(g *sshexec.Target) { g.User = "" },
		"option":    func(g *sshexec.Target) { g.User = "-oProxyCommand=x" },
		"two words": func(g *sshexec.Target) { g.User = "a b" },
		"no pin":    func(g *sshexec.Target) { g.HostKeys = nil },
		"bad pin":   func(g *sshexec.Target) { g.HostKeys = []string{"ssh-ed25519 x"} },
		"two pins":  func(g *sshexec.Target) { g.HostKeys = []string{edPublic + "\n" + ecPublic} },
		"network":   func(g *sshexec.Target) { g.AllowNetwork = []string{"10.0.0.1/8"} },
		"shell":     func(g *sshexec.Target) { g.Shell = "fish" },
	} {
		bad := good
		spoil(&bad)
		if err := bad.Check(); code(err) != "invalid_request" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseHostKeys(f *testing.F) {
	f.Add([]byte("web.example " + edPublic))
	f.Add([]byte(hashedLine + " " + ecPublic))
	f.Add([]byte("@revoked *.ex?mple,!x " + edPublic + "\n" + ecPublic))
	f.Fuzz(func(t *testing.T, file []byte) {
		keys, err := sshexec.ParseHostKeys(file, "web.example:2222")
		if err != nil {
			if code(err) != "invalid_request" {
				t.Fatal(err)
			}
			return
		}
		// What it gives is a .pub file itself, and comes back unchanged.
		again, err := sshexec.ParseHostKeys([]byte(strings.Join(keys, "\n")), "web.example:2222")
		if err != nil || !slices.Equal(again, keys) {
			t.Errorf("%q became %q %v", keys, again, err)
		}
	})
}
