package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// atHome makes w a user with folders of its own instead of SALLYPORT_HOME, on a machine of its own.
func (w *world) atHome() {
	w.env.getenv = func(name string) string {
		return map[string]string{"HOME": w.dir, "XDG_CONFIG_HOME": filepath.Join(w.dir, "config")}[name]
	}
	w.env.machine = filepath.Join(w.dir, "machine")
}

func TestService(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("systemd: on Linux")
	}
	w := newWorld(t)
	w.atHome()
	var told []string
	w.env.manager = func(_ context.Context, name string, args ...string) (string, error) {
		told = append(told, strings.Join(append([]string{name}, args...), " "))
		if args[len(args)-1] == "daemon-reload" && len(told) == 1 {
			return "Failed to connect to bus", errors.New("exit status 1")
		}
		return "inactive\n", nil
	}
	unit := filepath.Join(w.dir, "config/systemd/user/sallyport.service")

	out, errs := w.want(0, "", "service", "install", "--dry-run")
	contains(t, "dry", out+errs, "ExecStart=", "XDG_CONFIG_HOME="+filepath.Join(w.dir, "config"), unit)
	if _, err := os.Stat(unit); err == nil || told != nil {
		t.Errorf("a dry run did something: %v %q", err, told)
	}
	_, errs = w.want(1, "", "service", "install")
	contains(t, "no manager", errs, "can't be told", "next: the file is as wanted", "sp up")
	out, _ = w.want(0, "", "service", "install")
	contains(t, "install", out, unit)
	out, _ = w.want(0, "", "service", "status")
	contains(t, "status", out, unit, "inactive", "not installed")
	out, _ = w.want(0, "", "service", "status", "--json")
	contains(t, "json", out, `"scope":"user"`, `"active":"inactive"`, `"missing":false`)

	// Whoever has a service is not told to start another gateway.
	_, errs = w.want(5, "", "status")
	contains(t, "advice", errs, "systemctl --user start sallyport")
	out, _ = w.want(0, "", "service", "uninstall")
	contains(t, "uninstall", out, "is gone")
	out, _ = w.want(0, "", "service", "uninstall")
	contains(t, "twice", out, "there is no")
	_, errs = w.want(5, "", "status")
	contains(t, "advice", errs, "sp up")

	for _, args := range []string{"install --system", "install --user root", "install x", "print upstart"} {
		w.want(2, "", append([]string{"service"}, strings.Fields(args)...)...)
	}
	w.want(1, "", "service", "install", "--system", "--user", "no-such-user-here")
}

// Where the machine's service serves this user, `sp up` makes no second gateway, and no advice says that it would.
func TestServedGatewayDown(t *testing.T) {
	w := newWorld(t)
	w.atHome()
	host, err := (&app{env: w.env}).serviceHost()
	if err != nil {
		t.Fatal(err)
	}
	path := host.Path("system")
	for uid, want := range map[int]string{os.Geteuid(): "the machine's service is your gateway", os.Geteuid() + 1: "sp up"} {
		text := fmt.Sprintf("[Service]\nExecStart=/usr/local/bin/spd serve --serve-uid %d\n", uid)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		_, errs := w.want(5, "", "status")
		contains(t, fmt.Sprint(uid), errs, want)
		if uid == os.Geteuid() {
			_, errs = w.want(1, "", "up")
			contains(t, "up", errs, want, "as root: ")
		}
	}
}
