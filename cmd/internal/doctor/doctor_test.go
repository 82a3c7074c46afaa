package doctor

import (
	"strings"
	"testing"
)

// good is a machine without a fault or a hint.
func good() Machine {
	return Machine{Pidfd: true, PeerPidfd: true, ASLR: 2, Yama: 1, CorePattern: "core", Umask: 0o077, ClockKnown: true, ClockSynced: true}
}

func one(t *testing.T, all []Finding, check string) Finding {
	t.Helper()
	for _, f := range all {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("no finding %s in %+v", check, all)
	return Finding{}
}

func TestMachine(t *testing.T) {
	for _, f := range good().Findings() {
		if f.State != OK || f.Mend != "" || f.Found == "" {
			t.Errorf("%+v", f)
		}
	}
	for name, c := range map[string]struct {
		spoil func(*Machine)
		check string
		want  State
	}{
		"no pidfd":           {func(m *Machine) { m.Pidfd = false }, "kernel.pidfd", Wrong},
		"no SO_PEERPIDFD":    {func(m *Machine) { m.PeerPidfd = false }, "kernel.pidfd", Hint},
		"no Landlock":        {func(m *Machine) { m.NotConfined = []string{"the vault"} }, "kernel.landlock", Hint},
		"no randomization":   {func(m *Machine) { m.ASLR = 0 }, "kernel.aslr", Wrong},
		"no Yama":            {func(m *Machine) { m.Yama = -1 }, "kernel.yama", Hint},
		"Yama off":           {func(m *Machine) { m.Yama = 0 }, "kernel.yama", Hint},
		"core to a program":  {func(m *Machine) { m.CorePattern = "|/usr/share/apport/apport %p" }, "kernel.core", Hint},
		"others write files": {func(m *Machine) { m.Umask = 0o002 }, "umask", Wrong},
		"others read files":  {func(m *Machine) { m.Umask = 0o022 }, "umask", Hint},
		"umask unknown":      {func(m *Machine) { m.Umask = -1 }, "umask", Hint},
		"clock unsynced":     {func(m *Machine) { m.ClockSynced = false }, "clock", Hint},
		"clock unknown":      {func(m *Machine) { m.ClockKnown = false }, "clock", Hint},
	} {
		m := good()
		c.spoil(&m)
		all := m.Findings()
		f := one(t, all, c.check)
		if f.State != c.want || f.Mend == "" {
			t.Errorf("%s: %+v", name, f)
		}
		if Sound(all) != (c.want != Wrong) {
			t.Errorf("%s: sound %v", name, Sound(all))
		}
	}
	if Sound(Machine{}.Findings()) || Sound([]Finding{{}}) {
		t.Error("what nobody looked at is sound")
	}
}

func TestDisk(t *testing.T) {
	fine := Disk{Path: "/d", Known: true, Free: 1 << 40, Files: 1000, FreeFiles: 900, Type: "ext4", Encryption: Encrypted}
	for _, f := range fine.Findings() {
		if f.State != OK {
			t.Errorf("%+v", f)
		}
	}
	for name, c := range map[string]struct {
		spoil func(*Disk)
		check string
		want  State
	}{
		"full":         {func(d *Disk) { d.Free = 1 << 20 }, "disk.room", Wrong},
		"no files":     {func(d *Disk) { d.FreeFiles = 3 }, "disk.room", Wrong},
		"nearly full":  {func(d *Disk) { d.Free = 100 << 20 }, "disk.room", Hint},
		"read-only":    {func(d *Disk) { d.ReadOnly = true }, "disk.room", Wrong},
		"unknown":      {func(d *Disk) { d.Known = false }, "disk.room", Hint},
		"in memory":    {func(d *Disk) { d.Type = "tmpfs" }, "disk.kind", Wrong},
		"network":      {func(d *Disk) { d.Type = "nfs4" }, "disk.kind", Wrong},
		"sshfs":        {func(d *Disk) { d.Type = "fuse.sshfs" }, "disk.kind", Wrong},
		"kind unknown": {func(d *Disk) { d.Type = "" }, "disk.kind", Hint},
		"plain":        {func(d *Disk) { d.Encryption = Plain }, "disk.encryption", Hint},
		"can't tell":   {func(d *Disk) { d.Encryption = EncryptionUnknown }, "disk.encryption", Hint},
	} {
		d := fine
		c.spoil(&d)
		if f := one(t, d.Findings(), c.check); f.State != c.want || f.Mend == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if strings.Contains(one(t, Disk{Path: "/d"}.Findings(), "disk.room").Found, "0 MiB") {
		t.Error("an unknown disk is called full")
	}
}
