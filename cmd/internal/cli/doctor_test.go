package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/cmd/internal/doctor"
	"sallyport/gateway/api"
)

// patient is a world whose installation sp doctor looks at.
type patient struct {
	*world
	vars map[string]string
	says string // the service manager
}

func newPatient(t *testing.T) *patient {
	p := &patient{world: newWorld(t), says: "inactive\n"}
	p.vars = map[string]string{"SALLYPORT_HOME": p.dir, "HOME": filepath.Join(p.dir, "user")}
	p.env.getenv = func(name string) string { return p.vars[name] }
	p.env.manager = func(context.Context, string, ...string) (string, error) { return p.says, nil }
	return p
}

// finding is what the doctor says of one thing; the zero Finding: nothing.
func (p *patient) finding(check string) doctor.Finding {
	p.t.Helper()
	out, errs, exit := p.sp("", "doctor", "--json")
	var all []doctor.Finding
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		p.t.Fatalf("%v: %s%s", err, out, errs)
	}
	if sound := doctor.Sound(all); sound != (exit == 0) || exit > 1 {
		p.t.Errorf("exit %d, sound %v", exit, sound)
	}
	for _, f := range all {
		if f.Check == check {
			return f
		}
	}
	return doctor.Finding{}
}

func (p *patient) want(check string, state doctor.State, mend string) {
	p.t.Helper()
	if f := p.finding(check); f.State != state || !strings.Contains(f.Mend, mend) || (state != doctor.OK) != (f.Mend != "") {
		p.t.Errorf("%s: %+v, want %s and %q", check, f, state, mend)
	}
}

func (p *patient) write(path, text string) {
	p.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		p.t.Fatal(err)
	}
}

func TestDoctorGateway(t *testing.T) {
	for _, c := range []struct {
		status api.Status
		check  string
		state  doctor.State
		mend   string
	}{
		{api.Status{Vault: "ready", PID: 7}, "gateway", doctor.OK, ""},
		{api.Status{Vault: "ready"}, "vault", doctor.OK, ""},
		{api.Status{Vault: "locked"}, "vault", doctor.Hint, "sp unlock"},
		{api.Status{Vault: "absent"}, "vault", doctor.Wrong, "sp init"},
		{api.Status{Vault: "quarantined", Quarantine: "the log ends early"}, "vault", doctor.Wrong, "sp vault release"},
		{api.Status{Vault: "ready", Unresolved: 2}, "actions", doctor.Hint, "sp action resolve"},
	} {
		p := newPatient(t)
		p.operator(answers{api.PathStatus: c.status})
		p.want(c.check, c.state, c.mend)
	}

	p := newPatient(t)
	p.want("gateway", doctor.Wrong, "sp up")
	// One that was killed leaves its address behind.
	l, err := net.Listen("unix", filepath.Join(p.dir, "operator.sock"))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := p.home().PublishOperator(l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	p.want("gateway", doctor.Wrong, "sp up")
	if f := p.finding("gateway"); !strings.Contains(f.Found, "left behind") {
		t.Errorf("%+v", f)
	}
	// An address that others could have written is not believed.
	if err := os.Chmod(filepath.Join(p.dir, "operator.addr"), 0o666); err != nil {
		t.Fatal(err)
	}
	p.want("gateway", doctor.Wrong, "rm operator.addr")
}

func TestDoctorFolder(t *testing.T) {
	p := newPatient(t)
	p.want("folder.data", doctor.OK, "")
	if err := os.Chmod(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p.want("folder.data", doctor.Wrong, "chmod 700 "+p.dir)
	p.vars["SALLYPORT_HOME"] = "relative"
	p.want("folder", doctor.Wrong, "absolute")
	p.vars["SALLYPORT_HOME"] = "/" + strings.Repeat("x", 200)
	p.want("folder", doctor.Wrong, "shorter")
}

func TestDoctorProgram(t *testing.T) {
	p := newPatient(t)
	spd := filepath.Join(p.dir, "spd")
	p.env.spd = func() (string, error) { return spd, nil }
	p.want("program", doctor.Wrong, "install spd")
	p.write(spd, "#!/bin/sh\n")
	p.want("program", doctor.OK, "")
	if err := os.Chmod(spd, 0o775); err != nil {
		t.Fatal(err)
	}
	p.want("program", doctor.Wrong, "chmod go-w")
	p.env.spd = func() (string, error) { return "", errors.New("it is nowhere") }
	p.want("program", doctor.Wrong, "install spd")
}

func TestDoctorLog(t *testing.T) {
	p := newPatient(t)
	p.want("pin", doctor.OK, "")
	newBook(t, p.dir, "sallyport/one").close()
	p.want("pin", doctor.Wrong, "sp audit pin")
	p.world.want(0, "", "audit", "pin")
	p.want("pin", doctor.OK, "")
	if f := p.finding("clock.log"); f.State != "" {
		t.Errorf("%+v", f)
	}

	// The log knows a later time than the clock.
	segs, err := filepath.Glob(filepath.Join(p.dir, "audit", "*.seg"))
	if err != nil || len(segs) == 0 {
		t.Fatal(err, segs)
	}
	later := p.env.now().Add(time.Hour)
	if err := os.Chtimes(segs[0], later, later); err != nil {
		t.Fatal(err)
	}
	p.want("clock.log", doctor.Wrong, "set the clock")

	// The key of another log that calls itself the same, in the place of the pinned one.
	forged := emptyBook(t, t.TempDir(), "sallyport/one")
	p.write(filepath.Join(p.dir, "audit.pub"), forged.pub())
	p.want("pin", doctor.Wrong, "sp audit verify")
	p.write(filepath.Join(p.dir, "audit.pub"), "nonsense\n")
	p.want("pin", doctor.Wrong, "audit.pub")
}

func TestDoctorService(t *testing.T) {
	p := newPatient(t)
	p.env.machine = filepath.Join(p.dir, "machine")
	if f := p.finding("service.user"); f.State != "" {
		t.Errorf("%+v", f)
	}
	p.world.want(0, "", "service", "install", "--no-start")
	p.want("service.user", doctor.Hint, "start sallyport")
	p.says = "active\n"
	p.want("service.user", doctor.OK, "")
	host, err := (&app{env: p.env}).serviceHost()
	if err != nil {
		t.Fatal(err)
	}
	unit := host.Path("user")
	p.write(unit, "[Service]\nExecStart=/nowhere/spd serve\n")
	p.want("service.user", doctor.Wrong, "sp service install")
}

func TestDoctorClient(t *testing.T) {
	p := newPatient(t)
	p.env.self = func() (string, error) { return "/usr/local/bin/sp", nil }
	if err := os.MkdirAll(p.vars["HOME"], 0o700); err != nil {
		t.Fatal(err)
	}
	if f := p.finding("client.claude"); f.State != "" {
		t.Errorf("%+v", f)
	}
	p.world.want(0, "", "install", "claude")
	p.want("client.claude", doctor.OK, "")
	config := filepath.Join(p.vars["HOME"], ".claude.json")
	p.write(config, `{"mcpServers":{"sallyport":{"command":"/old/place/sp","args":["mcp"]}}}`)
	p.want("client.claude", doctor.Wrong, "sp install claude")
	p.write(config, `{"mcpServers":`)
	p.want("client.claude", doctor.Wrong, "put the file right")
}

func TestDoctorBus(t *testing.T) {
	p := newPatient(t)
	if p.finding("session.bus").State == "" {
		t.Skip("session bus: on Linux")
	}
	p.want("session.bus", doctor.Hint, "passphrase")
	bus := filepath.Join(p.dir, "bus")
	p.vars["DBUS_SESSION_BUS_ADDRESS"] = "unix:path=" + bus + ",guid=1"
	p.want("session.bus", doctor.Wrong, "unset")
	l, err := net.Listen("unix", bus)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p.want("session.bus", doctor.OK, "")
	p.vars["DBUS_SESSION_BUS_ADDRESS"] = "tcp:host=localhost"
	p.want("session.bus", doctor.Hint, "unix:path=")
}

// The text names each thing, its state and its mending, and counts.
func TestDoctorText(t *testing.T) {
	p := newPatient(t)
	out, _ := p.world.want(1, "", "doctor")
	contains(t, "text", out, "WRONG  gateway", "→ ", " wrong, ", "looked at")
	p.world.want(2, "", "doctor", "x")
}
