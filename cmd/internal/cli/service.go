package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"sallyport/cmd/internal/service"
	"sallyport/gateway/home"
)

func (a *app) service() *cobra.Command {
	return group("service", "The gateway as a service that the machine starts", a.serviceInstall(), a.serviceUninstall(), a.serviceStatus(), a.servicePrint())
}

// serviceWords are the flags that install and uninstall share.
type serviceWords struct{ system bool }

func (w *serviceWords) flag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.system, "system", false, "the machine's service, under a user of its own (as root)")
}

func (w *serviceWords) of() service.Scope {
	if w.system {
		return service.System
	}
	return service.User
}

func (a *app) serviceInstall() *cobra.Command {
	var (
		words        serviceWords
		name         string
		noStart, dry bool
	)
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Let the service manager start the gateway",
		Long: `Write the service file and start the gateway by it, now and with each login. With
--system, as root: a gateway under the user sallyport, which is made if there is none,
for the one user that --user names; that user's programs can't read its vault, log or
memory, nor trace or signal it. After each start the vault is locked: sp unlock.`,
		Example: "  sp service install\n  sudo sp service install --system --user alice",
		Args:    exactly(),
	}
	words.flag(cmd)
	cmd.Flags().StringVar(&name, "user", "", "with --system: the user `NAME` whom it serves")
	cmd.Flags().BoolVar(&noStart, "no-start", false, "write the file, and leave the service manager alone")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the file and where it would go, and change nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		scope := words.of()
		switch {
		case words.system && name == "":
			return usage("--system wants --user NAME: whom it serves")
		case !words.system && name != "":
			return usage("--user goes with --system: a gateway of one's own serves who installs it")
		}
		host, err := a.serviceHost()
		if err != nil {
			return err
		}
		who, err := a.served(name)
		if err != nil {
			return err
		}
		if dry {
			text, err := host.File(who)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.err, "would write %s:\n", host.Path(scope))
			_, err = a.out.Write(text)
			return err
		}
		if !noStart && !words.system {
			if s, err := a.ask(cmd.Context()); err == nil && !host.State(cmd.Context(), scope).Installed {
				return &adviceError{fmt.Errorf("a gateway that no service manager started is up: pid %d", s.PID), "`sp down` first, or --no-start"}
			}
		}
		if err := host.Install(cmd.Context(), scope, who, !noStart); err != nil {
			return managerAdvice(host, scope, err)
		}
		fmt.Fprintf(a.out, "%s is written", host.Path(scope))
		if noStart {
			fmt.Fprintln(a.out, "; nothing was started")
			return nil
		}
		fmt.Fprintln(a.out, ", and the gateway is started by it")
		fmt.Fprintln(a.err, "next: `sp status`; `sp init` for a new vault, else `sp unlock`")
		return nil
	}
	return cmd
}

// managerAdvice says what is left to do where the file is in place and the manager did not listen.
func managerAdvice(h service.Host, scope service.Scope, err error) error {
	switch {
	case errors.Is(err, service.ErrManager) && h.OS == "darwin":
		return &adviceError{err, "the file is as wanted; it counts from the next login on"}
	case errors.Is(err, service.ErrManager) && scope == service.System:
		return &adviceError{err, "the file is as wanted; where systemd runs: systemctl daemon-reload && systemctl enable --now sallyport"}
	case errors.Is(err, service.ErrManager):
		return &adviceError{err, "the file is as wanted; in a login session: systemctl --user daemon-reload && systemctl --user enable --now sallyport. Without systemd `sp up` starts the gateway"}
	case errors.Is(err, os.ErrPermission) && scope == service.System:
		return &adviceError{err, "say it as root"}
	}
	return err
}

func (a *app) serviceUninstall() *cobra.Command {
	var words serviceWords
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Stop the service and take its file away; vault and log stay",
		Args:  exactly(),
	}
	words.flag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		host, err := a.serviceHost()
		if err != nil {
			return err
		}
		scope := words.of()
		removed, err := host.Uninstall(cmd.Context(), scope)
		switch {
		case errors.Is(err, service.ErrManager) && removed:
			return &adviceError{err, "the file is gone; a gateway that still runs ends with `sp down`"}
		case errors.Is(err, os.ErrPermission) && words.system:
			return &adviceError{err, "say it as root"}
		case err != nil:
			return err
		case !removed:
			fmt.Fprintf(a.out, "there is no %s\n", host.Path(scope))
		default:
			fmt.Fprintf(a.out, "%s is gone; vault and log are where they were\n", host.Path(scope))
		}
		return nil
	}
	return cmd
}

func (a *app) serviceStatus() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "status", Short: "Show what the service manager knows of the gateway", Args: exactly()}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		host, err := a.serviceHost()
		if err != nil {
			return err
		}
		states := []service.State{host.State(cmd.Context(), service.User), host.State(cmd.Context(), service.System)}
		if asJSON {
			return a.document(states)
		}
		for _, s := range states {
			fmt.Fprintf(a.out, "%-7s %s\n", s.Scope, escape(serviceLine(s)))
		}
		return nil
	}
	return cmd
}

func serviceLine(s service.State) string {
	switch {
	case !s.Installed:
		return "not installed"
	case s.Missing:
		return fmt.Sprintf("%s starts %s, which is not there: `sp service install` again", s.Path, s.Program)
	case s.Active == "":
		return s.Path + " is installed; the service manager gives no answer"
	}
	return s.Path + " is installed; the service manager says: " + s.Active
}

// served is what the service file says: for name under a user of its own, or, without one, for who asks.
func (a *app) served(name string) (who service.Served, err error) {
	if name != "" {
		if who, err = service.Lookup(name); err != nil {
			return who, err
		}
	} else {
		for _, v := range []string{home.EnvHome, "XDG_DATA_HOME", "XDG_CONFIG_HOME"} { // where sp looks, too
			if dir := a.getenv(v); filepath.IsAbs(dir) {
				who.Environment = append(who.Environment, v+"="+filepath.Clean(dir))
			}
		}
	}
	who.Program, err = a.spd()
	return who, err
}

// serviceHost is this machine's service manager.
func (a *app) serviceHost() (service.Host, error) {
	dir := a.getenv("HOME")
	if !filepath.IsAbs(dir) {
		own, err := os.UserHomeDir()
		if err != nil {
			return service.Host{}, fmt.Errorf("find home folder: %w", err)
		}
		dir = own
	}
	config := a.getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		config = filepath.Join(dir, ".config")
	}
	return service.Host{OS: runtime.GOOS, Root: a.machine, Home: dir, Config: config, Run: a.manager}, nil
}

// startAdvice says how the gateway is started here: where a service manager has it, `sp up` would start another one.
func (a *app) startAdvice(otherwise string) string {
	host, err := a.serviceHost()
	if err != nil {
		return otherwise
	}
	if s := host.Installed(service.System); s.Installed && s.ServesUID == os.Geteuid() && a.getenv(home.EnvHome) == "" {
		return "the machine's service is your gateway; as root: " + host.Start(service.System)
	}
	if host.Installed(service.User).Installed {
		return "start it with `" + host.Start(service.User) + "`"
	}
	return otherwise
}

// runProgram starts a program of the system and returns what it said.
func runProgram(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return string(out), err
}

func (a *app) servicePrint() *cobra.Command {
	var (
		name, program string
		own           bool
	)
	show := &cobra.Command{
		Use:   "print systemd|launchd",
		Short: "Print the service file of a gateway under a user of its own",
		Long: `Print the service file of a gateway that runs under a user of its own and serves one
other: that user's programs, agents among them, can't read its vault, log or memory,
nor trace or signal it. How to set it up by hand stands at the file's top.`,
		ValidArgs: []string{"systemd", "launchd"},
		Args:      exactly("systemd|launchd"),
	}
	show.Flags().StringVar(&name, "user", "", "the user `NAME` whom it serves; by default who asks")
	show.Flags().BoolVar(&own, "own", false, "of a gateway of the user's own instead, as sp service install writes it")
	show.Flags().StringVar(&program, "spd", service.DefaultProgram, "the `PATH` of spd")
	show.RunE = func(_ *cobra.Command, args []string) error {
		write := service.Systemd
		switch args[0] {
		case "systemd":
		case "launchd":
			write = service.Launchd
		default:
			return usage("%q is no service manager that there is a file for: systemd or launchd", args[0])
		}
		var s service.Served
		if own && name != "" {
			return usage("--user and --own exclude each other")
		}
		if !own {
			var err error
			if s, err = service.Lookup(name); err != nil {
				return err
			}
		}
		s.Program = program
		return write(a.out, s)
	}
	return show
}
