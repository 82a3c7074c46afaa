package cli

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sallyport/gateway/api"
)

// On a real terminal: the card comes, keys answer it, and the terminal is left as it was found, whatever ends the view.
func TestLiveOnTerminal(t *testing.T) {
	w := newWorld(t)
	a := sample()
	a[api.PathSittingOpen] = api.Sitting{ID: "sit_1", EndsAt: time.Now().Add(15 * time.Minute)}
	a[api.PathSittingClose] = struct{}{}
	w.operator(a)
	p := w.onTerminal(true, "watch")
	p.raw()
	p.expect("[>Deny<]", 1)
	p.keys(t, w, "d", api.PathApprovalDeny)
	p.keys(t, w, "\x1b[C", "")
	p.expect("[>This", 1)
	p.write("\r")
	p.expect("passphrase", 1)
	p.write("correct horse\r")
	var args api.ApproveArgs
	if q := w.await(api.PathApprovalGrant, &args); q.env.Proof.Kind != "sitting" || args.ID != ap1 || args.Scope != "use" {
		t.Fatalf("%+v by %+v", args, q.env.Proof)
	}
	p.resize(12, 30)
	p.expect("more lines", 1)
	p.write("q")
	exit, shown := p.end()
	if exit != 0 || strings.Contains(shown, "horse") || !strings.Contains(shown, "\x1b[?1049l") || !strings.Contains(shown, "the sitting is over") {
		t.Errorf("exit %d, shown %q", exit, shown)
	}
	w.await(api.PathSittingClose, nil)
}

func TestLiveRestoresTerminal(t *testing.T) {
	for name, stop := range map[string]func(p *terminal){
		"ctrl-c": func(p *terminal) { p.write("\x03") },
		"TERM":   func(p *terminal) { p.cmd.Process.Signal(syscall.SIGTERM) },
		"INT":    func(p *terminal) { p.cmd.Process.Signal(os.Interrupt) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.operator(sample())
			p := w.onTerminal(true, "watch")
			p.raw()
			p.expect("[>Deny<]", 1)
			stop(p)
			if _, shown := p.end(); !strings.Contains(shown, "\x1b[?1049l") || !strings.Contains(shown, "\x1b[?25h") {
				t.Errorf("the screen was not given back: %q", shown)
			}
		})
	}
}

// Colours only where they are wanted: with NO_COLOR nothing is painted, and the focus still shows.
func TestLiveNoColour(t *testing.T) {
	for _, set := range []bool{false, true} {
		w := newWorld(t)
		w.operator(sample())
		w.setenv = []string{"TERM=xterm-256color"}
		if set {
			w.setenv = append(w.setenv, "NO_COLOR=1")
		}
		p := w.onTerminal(true, "watch")
		p.raw()
		p.expect("[>Deny<]", 1)
		p.write("q")
		_, shown := p.end()
		if painted := strings.Contains(shown, "\x1b[33m") || strings.Contains(shown, "\x1b[7m"); painted == set {
			t.Errorf("NO_COLOR set %v, painted %v: %q", set, painted, shown)
		}
	}
}

// Typed before anything was shown: nothing happens. Without a gateway or a terminal it says so at once.
func TestLiveTypedAhead(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	p := w.onTerminal(true, "watch")
	p.write("d\r\rd\r")
	p.expect("[>Deny<]", 1)
	p.keys(t, w, "\x1b[B", "")
	p.expect("sha256", 1)
	p.write("q")
	p.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.asked {
		if q.path == api.PathApprovalDeny || q.path == api.PathApprovalGrant {
			t.Fatalf("asked %s by a key that was typed before the card", q.path)
		}
	}
	w = newWorld(t)
	if exit, shown := w.onTerminal(true, "watch").end(); exit != 5 || strings.Contains(shown, "\x1b[?1049h") {
		t.Errorf("exit %d, shown %q", exit, shown)
	}
}

// raw waits until the view has the terminal.
func (p *terminal) raw() {
	p.t.Helper()
	p.expect("\x1b[?1049h", 1)
}

func (p *terminal) write(text string) {
	p.t.Helper()
	if _, err := p.master.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
}

// keys presses keys again and again until the guard lets one through: until path was asked for, or once after its time.
func (p *terminal) keys(t *testing.T, w *world, keys, path string) {
	t.Helper()
	if path == "" {
		time.Sleep(2 * clickGuard) // the guard is a time: nothing tells when it is over
		p.write(keys)
		return
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		p.write(keys)
		if w.has(path) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%s was never asked for", path)
}

func (p *terminal) resize(rows, columns uint16) {
	p.t.Helper()
	if err := unix.IoctlSetWinsize(int(p.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		p.t.Fatal(err)
	}
	p.cmd.Process.Signal(unix.SIGWINCH)
}

func (w *world) has(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.asked {
		if q.path == path {
			return true
		}
	}
	return false
}

// await waits for the latest command of a path.
func (w *world) await(path string, args any) asked {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if w.has(path) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for i := len(w.asked) - 1; ; i-- {
				if q := w.asked[i]; q.path == path {
					w.decode(q, args)
					return q
				}
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.t.Fatalf("%s was never asked for", path)
	return asked{}
}
