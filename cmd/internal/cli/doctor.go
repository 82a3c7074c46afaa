package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sallyport/auditlog"
	"sallyport/cmd/internal/clientcfg"
	"sallyport/cmd/internal/doctor"
	"sallyport/cmd/internal/release"
	"sallyport/cmd/internal/service"
	"sallyport/gateway/home"
)

// clockSlack is how far in the future the log's last word may lie before the clock counts as set back.
const clockSlack = 2 * time.Minute

func (a *app) doctor() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong with this installation, and how to mend it",
		Long: `Look at the gateway, its folders, vault, log, service and clients, at the kernel, the
disk and the clock. Each thing is ok, a hint (it works; something is weaker than it
could be) or WRONG, with the step that mends it. Nothing is changed. Exit 1 if
anything is wrong.`,
		Args: exactly(),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all := a.examine(cmd.Context())
		if asJSON {
			if err := a.document(all); err != nil {
				return err
			}
		} else {
			a.showFindings(all)
		}
		if !doctor.Sound(all) {
			return exitError(exitFailed)
		}
		return nil
	}
	return cmd
}

func (a *app) showFindings(all []doctor.Finding) {
	wrong, hints := 0, 0
	for _, f := range all {
		word := string(f.State)
		switch f.State {
		case doctor.OK:
		case doctor.Hint:
			hints++
		default:
			word = "WRONG"
			wrong++
		}
		fmt.Fprintf(a.out, "%-5s  %-16s %s\n", word, f.Check, escape(f.Found))
		if f.Mend != "" {
			fmt.Fprintf(a.out, "%24s→ %s\n", "", escape(f.Mend))
		}
	}
	fmt.Fprintf(a.out, "%d looked at: %d wrong, %d hints\n", len(all), wrong, hints)
}

// examine looks at everything, in the order in which it is mended.
func (a *app) examine(ctx context.Context) []doctor.Finding {
	all := []doctor.Finding{a.daemonProgram()}
	h, err := a.home()
	if err != nil {
		mend := "set HOME, or SALLYPORT_HOME to an absolute path"
		if errors.Is(err, home.ErrPathTooLong) {
			mend = "choose a shorter SALLYPORT_HOME or XDG_RUNTIME_DIR"
		}
		all = append(all, doctor.Fault("folder", mend, "%v", err))
	} else {
		all = append(all, doctor.Folders(h, a.getenv)...)
		all = append(all, a.gatewayFindings(ctx, h)...)
		all = append(all, a.logFindings(h)...)
		all = append(all, doctor.LookDisk(a.machine, h.Data()).Findings()...)
	}
	all = append(all, a.serviceFindings(ctx)...)
	all = append(all, a.clientFindings()...)
	if runtime.GOOS == "linux" {
		all = append(all, a.sessionBus())
		all = append(all, doctor.LookMachine(a.machine).Findings()...)
	}
	return all
}

// daemonProgram looks at the spd that `sp up` would start.
func (a *app) daemonProgram() doctor.Finding {
	const check = "program"
	path, err := a.spd()
	if err != nil {
		return doctor.Fault(check, "install spd beside sp", "%v", err)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return doctor.Fault(check, "install spd beside sp", "%s: %v", path, err)
	}
	if uint32(st.Mode)&0o022 != 0 || st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return doctor.Fault(check, "chmod go-w "+path+", and let it belong to you or to root", "%s can be exchanged by another user (owner uid %d, mode %04o)", path, st.Uid, st.Mode&0o7777)
	}
	return doctor.Fine(check, "%s", path)
}

// gatewayFindings asks the gateway how it is.
func (a *app) gatewayFindings(ctx context.Context, h home.Home) []doctor.Finding {
	const check = "gateway"
	s, err := a.ask(ctx)
	if err != nil {
		mend, found := "sp up", err.Error()
		switch _, addrErr := h.OperatorAddr(); {
		case present(err):
			mend = "see what it says; `sp down`, then `sp up`"
			if errors.Is(addrErr, home.ErrNotPrivate) {
				mend = "rm operator.addr in " + h.Runtime() + ", then `sp up`"
			}
		case addrErr == nil:
			found = "no gateway runs; operator.addr was left behind by one that was killed"
			mend = a.startAdvice("sp up")
		default:
			found, mend = "no gateway runs", a.startAdvice("sp up")
		}
		return []doctor.Finding{doctor.Fault(check, mend, "%s", found)}
	}
	all := []doctor.Finding{doctor.Fine(check, "pid %d answers", s.PID)}
	if own := release.This().Version; s.Version != own && own != release.Unreleased {
		all = append(all, doctor.Note("version", "install sp and spd of one build, then `sp down` and `sp up`", "sp is %s, the gateway that runs %s", own, s.Version))
	}
	const vault = "vault"
	switch s.Vault {
	case "ready":
		all = append(all, doctor.Fine(vault, "ready"))
	case "locked":
		all = append(all, doctor.Note(vault, "sp unlock", "locked: every action is refused"))
	case "absent":
		all = append(all, doctor.Fault(vault, "sp init, or sp restore FILE", "there is none"))
	default:
		all = append(all, doctor.Fault(vault, "sp vault release (says what contradicts)", "%s: %s", s.Vault, s.Quarantine))
	}
	if s.Unresolved > 0 {
		all = append(all, doctor.Note("actions", "sp action ls shows them as sent_unconfirmed; sp action resolve says what became of one", "%d writes of unknown outcome block their twins", s.Unresolved))
	}
	return all
}

// logFindings looks at the pin of the log's key, and at the clock by the log.
func (a *app) logFindings(h home.Home) []doctor.Finding {
	const check = "pin"
	f, err := find(h.Log())
	if err != nil || f.pub == nil {
		return []doctor.Finding{doctor.Fine(check, "there is no log of this user's own here")}
	}
	var all []doctor.Finding
	own, err := auditlog.ParsePub(f.pub)
	t := trust{}
	if err == nil {
		t, err = a.pinned(own.Origin)
	}
	switch {
	case err != nil:
		all = append(all, doctor.Fault(check, "look at audit.pub in "+h.Log()+" and at "+h.Pins(), "%v", err))
	case !t.pinned:
		all = append(all, doctor.Fault(check, "sp audit pin, after you compared the fingerprint with what `sp init` printed", "the log's key is not pinned: `sp audit verify` could not tell a log made anew"))
	default:
		if fault := disagrees(f.pub, t.pub); fault != nil {
			all = append(all, doctor.Fault(check, "sp audit verify; if the log was made anew on purpose, rm the pin and `sp audit pin`", "%s (pinned in %s)", fault.Detail, t.by))
		} else {
			all = append(all, doctor.Fine(check, "%s", t.by))
		}
	}
	if last, ok := lastWritten(filepath.Join(h.Log(), "audit")); ok && last.After(a.now().Add(clockSlack)) {
		all = append(all, doctor.Fault("clock.log", "set the clock right before anything is approved", "the log was last written at %s, which is yet to come: the clock was set back", last.UTC().Format(time.DateTime+"Z")))
	}
	return all
}

// lastWritten is when a segment was last written.
func lastWritten(dir string) (last time.Time, ok bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return last, false
	}
	for _, e := range entries {
		if i, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".seg") && i.ModTime().After(last) {
			last, ok = i.ModTime(), true
		}
	}
	return last, ok
}

func (a *app) serviceFindings(ctx context.Context) (all []doctor.Finding) {
	host, err := a.serviceHost()
	if err != nil {
		return nil
	}
	var both [2]service.State
	for i, scope := range []service.Scope{service.User, service.System} {
		s := host.State(ctx, scope)
		both[i] = s
		switch check := "service." + string(scope); {
		case !s.Installed:
		case s.Missing:
			mend := "sp service install"
			if scope == service.System {
				mend = "as root: sp service install --system --user NAME"
			}
			all = append(all, doctor.Fault(check, mend, "%s starts %s, which is not there", s.Path, s.Program))
		case s.Active != "active" && s.Active != "":
			all = append(all, doctor.Note(check, host.Start(scope), "%s is installed, and %s", s.Path, s.Active))
		default:
			all = append(all, doctor.Fine(check, "%s", s.Path))
		}
	}
	if both[0].Installed && both[1].Installed && both[1].ServesUID == os.Geteuid() {
		all = append(all, doctor.Fault("service", "sp service uninstall (the user's), so that the machine's is the only one", "two gateways serve this user, one of its own and the machine's: sp finds the user's own first"))
	}
	return all
}

// clientFindings looks whether what agents' clients start is this sp.
func (a *app) clientFindings() (all []doctor.Finding) {
	userHome, err := a.userHome()
	if err != nil {
		return nil
	}
	self, err := a.self()
	if err != nil {
		return []doctor.Finding{doctor.Fault("clients", "install sp", "%v", err)}
	}
	sys := clientcfg.System{GOOS: runtime.GOOS, Home: userHome, Getenv: a.getenv}
	for _, c := range clientcfg.Clients() {
		check := "client." + c.Name
		has, err := c.Remove(sys)
		if errors.Is(err, fs.ErrNotExist) || err == nil && has.None() {
			continue // no entry of ours
		}
		if err != nil {
			all = append(all, doctor.Fault(check, "put the file right: "+c.Title+" can't read it either", "%v", err))
			continue
		}
		wants, err := c.Install(sys, self)
		switch {
		case err != nil:
			all = append(all, doctor.Fault(check, "put the file right", "%v", err))
		case wants.None():
			all = append(all, doctor.Fine(check, "%s starts this sp", c.Title))
		default:
			all = append(all, doctor.Fault(check, "sp install "+c.Name, "%s has an entry in %s that does not start this sp (%s)", c.Title, has.Path, self))
		}
	}
	return all
}

// sessionBus looks for what a keychain slot and desktop notifications go through.
func (a *app) sessionBus() doctor.Finding {
	const check = "session.bus"
	addr := a.getenv("DBUS_SESSION_BUS_ADDRESS")
	path, ok := strings.CutPrefix(addr, "unix:path=")
	path, _, _ = strings.Cut(path, ",")
	switch {
	case addr == "":
		return doctor.Note(check, "log in by a desktop session, or leave it: the passphrase opens the vault", "none: no keychain slot and no desktop notifications here")
	case !ok:
		return doctor.Note(check, "only unix:path= is spoken to", "%s is no socket with a path: no keychain slot here", addr)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Type() != fs.ModeSocket {
		return doctor.Fault(check, "log in anew, or unset DBUS_SESSION_BUS_ADDRESS", "DBUS_SESSION_BUS_ADDRESS names %s, where no bus is", path)
	}
	return doctor.Fine(check, "%s", path)
}
