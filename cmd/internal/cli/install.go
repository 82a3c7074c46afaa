package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"sallyport/cmd/internal/clientcfg"
	"sallyport/gateway/home"
)

func (a *app) install() *cobra.Command {
	var remove, dryRun bool
	names := clientcfg.Names()
	cmd := &cobra.Command{
		Use:   "install CLIENT",
		Short: "Tell an agent's client to start sp mcp",
		Long: `Write an entry named sallyport into the configuration of an agent's client (or, with
--remove, take it out again): this sp's absolute path with the argument mcp; no
environment and no secret. Everything else in the file stays as it is, to the byte. The
file as it was is kept beside it, with ` + clientcfg.BackupSuffix + ` after its name.

Clients: ` + strings.Join(names, ", ") + `.`,
		Example:   "  sp install claude\n  sp install codex --dry-run\n  sp install codex --remove",
		ValidArgs: names,
		Args:      exactly("CLIENT"),
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "take the entry out again")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, and do nothing")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		c, err := clientcfg.Lookup(args[0])
		if err != nil {
			return usage("%q is no client that is known here: %s", args[0], strings.Join(names, ", "))
		}
		userHome, err := a.userHome()
		if err != nil {
			return err
		}
		sys := clientcfg.System{GOOS: runtime.GOOS, Home: userHome, Getenv: a.getenv}
		var ch clientcfg.Change
		if remove {
			ch, err = c.Remove(sys)
		} else {
			var self string
			if self, err = a.self(); err == nil {
				ch, err = c.Install(sys, self)
			}
		}
		if err != nil {
			return &adviceError{err, "nothing was written; put the file right, or write the entry by hand (docs/mcp-clients.md)"}
		}
		return a.installed(c, ch, remove, dryRun)
	}
	return cmd
}

// installed makes the change and says what came of it.
func (a *app) installed(c clientcfg.Client, ch clientcfg.Change, remove, dryRun bool) error {
	verb, done := "add or correct", "added to"
	if remove {
		verb, done = "remove", "removed from"
	}
	switch {
	case ch.None() && remove:
		fmt.Fprintf(a.err, "%s: sallyport does not stand in %s\n", c.Title, escape(ch.Path))
		return nil
	case ch.None():
		fmt.Fprintf(a.err, "%s: sallyport stands in %s already\n", c.Title, escape(ch.Path))
		a.mindHome()
		return nil
	case dryRun:
		fmt.Fprintf(a.err, "%s: would %s %s in %s\n", c.Title, verb, ch.Key, escape(ch.Path))
		return nil
	}
	if err := ch.Write(); err != nil {
		next := "look at who may write " + ch.Path
		if errors.Is(err, clientcfg.ErrChanged) {
			next = "run it again"
		}
		return &adviceError{err, next}
	}
	fmt.Fprintf(a.err, "%s: sallyport %s %s\n", c.Title, done, escape(ch.Path))
	if b := ch.Backup(); b != "" {
		fmt.Fprintf(a.err, "  before: %s\n", escape(b))
	}
	fmt.Fprintf(a.err, "  next: %s\n", c.Reload)
	if !remove {
		a.mindHome()
	}
	return nil
}

// mindHome warns where sp, started by a client, would look for another gateway than this sp does.
func (a *app) mindHome() {
	if dir := a.getenv(home.EnvHome); dir != "" {
		fmt.Fprintf(a.err, "  note: %s is set here, to %s, and not written into the entry; the client must be started with it, and some (Codex) pass on only what the entry's env names\n", home.EnvHome, escape(dir))
	}
}

// userHome is the folder below which clients keep their settings.
func (a *app) userHome() (string, error) {
	dir := a.getenv("HOME")
	if !filepath.IsAbs(dir) {
		return "", &adviceError{errors.New("find the home folder: HOME is not set to an absolute path"), "set HOME"}
	}
	return filepath.Clean(dir), nil
}

// ownPath is this program's path as it was found: a package manager's link outlives the version it points to.
func ownPath() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	if strings.Contains(exe, string(filepath.Separator)+"go-build") {
		return "", errors.New("find this program: `go run` made it and takes it away when it ends")
	}
	called, err := exec.LookPath(os.Args[0])
	if err != nil {
		return exe, nil
	}
	if called, err = filepath.Abs(called); err != nil {
		return exe, nil
	}
	if real, err := filepath.EvalSymlinks(called); err != nil || real != exe {
		return exe, nil
	}
	return called, nil
}
