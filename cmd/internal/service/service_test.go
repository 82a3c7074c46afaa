package service

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var alice = Served{User: "alice", Group: "staff", UID: 1000, GID: 1001}

// What spd demands is what the unit gives: its uid, the served group's folder, three rights and no more.
func TestUnit(t *testing.T) {
	var b bytes.Buffer
	if err := Systemd(&b, alice); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--serve-uid 1000\n", "\nUser=sallyport\n", "\nGroup=1001\n", "\nRuntimeDirectoryMode=0710\n",
		"\nAmbientCapabilities=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_KILL\n", "\nCapabilityBoundingSet=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_KILL\n",
		"\nNoNewPrivileges=yes\n", "\nProtectSystem=strict\n", "\nPrivateTmp=yes\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the unit has no %q", want)
		}
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("SALLYPORT_REAL") == "require" {
			t.Fatal(err)
		}
		t.Skip("systemd-analyze: " + err.Error())
	}
	path := filepath.Join(t.TempDir(), "sallyport.service")
	unit := bytes.ReplaceAll(b.Bytes(), []byte("/usr/local/bin/spd"), []byte("/bin/true")) // it looks for the program
	unit = bytes.ReplaceAll(unit, []byte("User=sallyport"), []byte("User=daemon"))
	if err := os.WriteFile(path, unit, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("sallyport.service")) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	out, err = exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=30", path).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: exposure above 3.0: %v\n%s", err, out)
	}
}

func TestPropertyList(t *testing.T) {
	var b bytes.Buffer
	if err := Launchd(&b, alice); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if !strings.Contains(text, "<string>1000</string>") || !strings.Contains(text, "<string>staff</string>") {
		t.Error("whom it serves is not in it")
	}
	for d := xml.NewDecoder(&b); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestServedRefuses(t *testing.T) {
	for _, s := range []Served{{UID: 7}, {User: "root", Group: "root"}, {User: "a\nExecStart=/bin/sh", Group: "g", UID: 1}, {User: "a", Group: "</string>", UID: 1}} {
		if err := Systemd(io.Discard, s); err == nil {
			t.Errorf("%+v is served", s)
		}
	}
	if _, err := Lookup("nobody-of-this-name"); err == nil {
		t.Error("an unknown user is served")
	}
}
