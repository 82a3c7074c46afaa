package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sallyport/cmd/internal/confine"
	"sallyport/gateway/home"
)

// confine makes `sp run -- CMD` of the group of run's commands.
func (a *app) confine(group *cobra.Command) *cobra.Command {
	var bestEffort bool
	group.Use = "run"
	group.Long = `The agent runs: one live instance of a client each.

sp run [--best-effort] -- CMD ARG…  starts an agent confined by Landlock (Linux 6.12
or newer): it can't open the gateway's vault, log, settings and pins, reach the
operators' door, trace or signal a process outside, nor gain rights (sudo). It can
reach the agents' door and everything else that you can, but make no new files or
folders directly in a folder that lies above the gateway's ones (such as ~ and
~/.config); below others it can. Where the gateway's folders are mounted a second
time they are hidden there too.

It does not keep the agent from programs that work for anybody who asks over a
socket with a path (systemd --user, docker, tmux), from your terminal, nor from
changing what you start later (~/.bashrc). A gateway under a user of its own
(sp service print systemd) protects the vault from all of these.`
	group.Flags().BoolVar(&bestEffort, "best-effort", false, "on an older kernel start it all the same, and say what is missing")
	inner := group.RunE
	group.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.ArgsLenAtDash() != 0 {
			return inner(cmd, args)
		}
		if len(args) == 0 {
			return usage("%s -- needs a command to start", cmd.CommandPath())
		}
		return a.startConfined(args, bestEffort)
	}
	return group
}

func (a *app) startConfined(argv []string, bestEffort bool) error {
	h, err := a.home()
	if err != nil {
		return err
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("start agent: %w", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("start agent: %w", err)
	}
	if missing := confine.Missing(); len(missing) > 0 {
		if !bestEffort {
			return &adviceError{fmt.Errorf("start agent: this system can't keep it from %s", strings.Join(missing, "; nor from ")),
				"use Linux 6.12 or newer with Landlock, or say --best-effort"}
		}
		a.say("sp: NOT kept from: %s", strings.Join(missing, "; "))
	}
	hidden, err := hiddenFrom(h)
	if err != nil {
		return fmt.Errorf("start agent: %w", err)
	}
	return fmt.Errorf("start agent: %w", confine.Exec(path, argv, os.Environ(), hidden))
}

// hiddenFrom are the gateway's folders, where they really are.
func hiddenFrom(h home.Home) ([]string, error) {
	dirs := []string{h.Data(), filepath.Dir(h.Settings()), h.Pins(), h.Runtime()}
	for _, socket := range h.AgentSockets() {
		dirs = append(dirs, filepath.Dir(socket))
	}
	var out []string
	for _, dir := range dirs {
		real, err := realPath(dir)
		if err != nil {
			return nil, err
		}
		if real == "/" {
			return nil, errors.New("the gateway's folder is /")
		}
		out = append(out, real)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// realPath resolves the links in what exists of path.
func realPath(path string) (string, error) {
	rest := ""
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, os.ErrNotExist) || at == "/" {
			return "", err
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}
