package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"sallyport/gateway/api"
	"sallyport/gateway/home"
)

func asSP() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Main(ctx, os.Args[1:])
}

// daemon is spd as far as up and down can see.
func daemon(what string) int {
	if what == "dies" {
		fmt.Fprintln(os.Stderr, "serve: the database is newer than this program")
		return 1
	}
	h, err := home.Find(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	release, err := h.Prepare()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer release()
	addr := filepath.Join(h.Data(), "operator.sock")
	os.Remove(addr)
	l, err := net.Listen("unix", addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	stop := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc(api.OperatorPrefix+api.PathStatus, func(w http.ResponseWriter, _ *http.Request) {
		sid, _ := unix.Getsid(0)
		b, _ := json.Marshal(api.Status{Vault: "absent", PID: os.Getpid(), Runs: map[string]int{"sid": sid}})
		w.Write(b)
	})
	mux.HandleFunc(api.OperatorPrefix+api.PathStop, func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("{}"))
		close(stop)
	})
	s := &http.Server{Handler: mux}
	go s.Serve(l)
	if err := h.PublishOperator(addr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stderr, "serving")
	<-stop
	s.Shutdown(context.Background())
	return 0
}

// spdWorld is a world whose spd does what.
func spdWorld(t *testing.T, what string) *world {
	w := newWorld(t)
	t.Setenv(roleSPD, what)
	t.Setenv(home.EnvHome, w.dir)
	return w
}

func TestUpDown(t *testing.T) {
	w := spdWorld(t, "serve")
	if err := os.RemoveAll(w.dir); err != nil { // the first start on a machine
		t.Fatal(err)
	}
	out, _ := w.want(0, "", "up")
	contains(t, "up", out, "is up: pid ")
	defer w.sp("", "down")

	var s api.Status
	out, _ = w.want(0, "", "status", "--json")
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatal(err)
	}
	if s.Runs["sid"] != s.PID {
		t.Errorf("spd (pid %d) is in session %d: it would die with the terminal", s.PID, s.Runs["sid"])
	}
	i, err := os.Stat(w.home().LogFile())
	if err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("log file: %v, %v", i.Mode(), err)
	}
	if b, _ := os.ReadFile(w.home().LogFile()); !strings.Contains(string(b), "serving") {
		t.Errorf("spd's stderr is not in the log file: %q", b)
	}
	out, _ = w.want(0, "", "up")
	contains(t, "up again", out, fmt.Sprintf("already up: pid %d", s.PID))

	out, _ = w.want(0, "", "down")
	contains(t, "down", out, "is down")
	if err := syscall.Kill(s.PID, 0); err == nil {
		// It may be a zombie of ours that has not been waited for yet, but it no longer holds its lock.
		release, err := w.home().Prepare()
		if err != nil {
			t.Errorf("down returned while spd still runs: %v", err)
		} else {
			release()
		}
	}
	w.want(5, "", "status")
	out, _ = w.want(0, "", "down")
	contains(t, "down again", out, "not running")
}

func TestUpDies(t *testing.T) {
	w := spdWorld(t, "dies")
	start := time.Now()
	_, errs := w.want(1, "", "up")
	contains(t, "stderr", errs, "the database is newer", "next: read "+w.home().LogFile())
	if d := time.Since(start); d > startWithin/2 {
		t.Errorf("a dead spd was waited for: %s", d)
	}
}

func TestUpWithoutDaemon(t *testing.T) {
	w := newWorld(t)
	w.env.spd = func() (string, error) { return findDaemon() }
	t.Setenv("PATH", "/nonexistent")
	_, errs := w.want(1, "", "up")
	contains(t, "stderr", errs, "find spd", "next: ")
}

// A folder that others could write is no place to start in.
func TestUpRefusesOpenFolder(t *testing.T) {
	w := spdWorld(t, "serve")
	if err := os.Chmod(w.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	_, errs := w.want(1, "", "up")
	contains(t, "stderr", errs, "open to others", "chmod 700")
}

func TestStatusWaits(t *testing.T) {
	w := newWorld(t)
	start := time.Now()
	_, errs := w.want(5, "", "status", "--wait", "200ms")
	if d := time.Since(start); d < 200*time.Millisecond {
		t.Errorf("waited only %s", d)
	}
	contains(t, "stderr", errs, "sp up")
	done := make(chan int)
	go func() {
		_, _, exit := w.sp("", "status", "--wait", "30s")
		done <- exit
	}()
	w.operator(sample())
	if exit := <-done; exit != 0 {
		t.Errorf("exit %d", exit)
	}
}
