package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sallyport/cmd/internal/service"
	"sallyport/gateway/api"
	"sallyport/gateway/home"
)

const (
	startWithin = 30 * time.Second // from the start of spd to its first answer
	stopWithin  = 30 * time.Second // from the request to the end of the process: actions in flight are waited for
	askEvery    = 50 * time.Millisecond
)

func (a *app) up() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Start the gateway in the background",
		Args:  exactly(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.start(cmd.Context()) },
	}
}

func (a *app) down() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the gateway",
		Args:  exactly(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.stop(cmd.Context()) },
	}
}

func (a *app) start(ctx context.Context) error {
	s, err := a.ask(ctx)
	if err == nil {
		fmt.Fprintf(a.out, "the gateway is already up: pid %d, vault %s\n", s.PID, vaultState(s.Vault))
		return nil
	}
	if !isCode(err, "gateway_unreachable") {
		return err
	}
	h, err := a.home()
	if err != nil {
		return err
	}
	if host, err := a.serviceHost(); err == nil && a.getenv(home.EnvHome) == "" {
		if s := host.Installed(service.System); s.Installed && s.ServesUID == os.Geteuid() {
			return &adviceError{errors.New("start gateway: the machine's service is your gateway, and another one beside it would be taken for it"), "as root: " + host.Start(service.System)}
		}
	}
	ended, err := a.launch(h)
	if err != nil {
		return err
	}
	s, err = a.await(ctx, startWithin, ended)
	if err != nil {
		return &adviceError{fmt.Errorf("start gateway: %w", errors.New(err.Error()+lastLine(h.LogFile()))), "read " + h.LogFile()}
	}
	fmt.Fprintf(a.out, "the gateway is up: pid %d, vault %s\n", s.PID, vaultState(s.Vault))
	return nil
}

// launch starts spd in a session of its own, its messages in the log file.
// ended is closed when it has gone again.
func (a *app) launch(h home.Home) (ended <-chan struct{}, err error) {
	path, err := a.spd()
	if err != nil {
		return nil, err
	}
	if err := home.MakePrivate(h.Data()); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(h.LogFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log file: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(path, "serve")
	cmd.Dir = "/" // keeps no folder busy
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start spd: %w", err)
	}
	gone := make(chan struct{})
	go func() { // ends with spd or with this process
		cmd.Wait()
		close(gone)
	}()
	return gone, nil
}

// await asks until the gateway answers. When ended is closed first (nil: never) it asks once
// more: another spd may have been faster.
func (a *app) await(ctx context.Context, within time.Duration, ended <-chan struct{}) (api.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		s, err := a.ask(ctx)
		if err == nil {
			return s, nil
		}
		select {
		case <-tick.C:
		case <-ended:
			if s, again := a.ask(ctx); again == nil {
				return s, nil
			}
			return s, errors.New("it ended at once")
		case <-ctx.Done():
			return s, err
		}
	}
}

// ask is one vault/status.
func (a *app) ask(ctx context.Context) (s api.Status, err error) {
	err = a.do(ctx, api.PathStatus, nil, nil, nil, &s)
	return s, err
}

func (a *app) stop(ctx context.Context) error {
	s, err := a.ask(ctx)
	if isCode(err, "gateway_unreachable") && !present(err) {
		fmt.Fprintln(a.out, "the gateway is not running")
		return nil
	}
	if err != nil {
		return err
	}
	gone, release := watch(s.PID) // before the request: afterwards the number could be another's
	defer release()
	if err := a.do(ctx, api.PathStop, nil, nil, nil, nil); err != nil && !isCode(err, "gateway_unreachable") {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for !gone() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return &adviceError{fmt.Errorf("stop gateway: pid %d is still there", s.PID), "see its log, or end it with `kill -9`: a dead gateway lets nothing through"}
		}
	}
	fmt.Fprintln(a.out, "the gateway is down")
	return nil
}

// present says that something is there which must not be spoken to, or which does not answer.
func present(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Reason != api.Lookup("gateway_unreachable").Reason
}

func isCode(err error, code string) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code == code
}

// lastLine is the end of a log, to say at once why a start went wrong.
func lastLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if n, err := f.Seek(0, io.SeekEnd); err == nil {
		f.Seek(max(0, n-2048), io.SeekStart)
	}
	b, _ := io.ReadAll(io.LimitReader(f, 2048))
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return ": " + last
	}
	return ""
}
