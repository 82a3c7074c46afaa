package client_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
)

func TestNobodyThere(t *testing.T) {
	h, dir := place(t)
	c := client.Agent(h)
	defer c.Close()
	_, err := c.Act(within(t), httpCall("https://a.example/"))
	want(t, err, "gateway_unreachable")
	var e *api.Error
	if errors.As(err, &e); !strings.Contains(e.Retry, "sp up") {
		t.Errorf("no advice in %+v", e)
	}
	// It was only not there yet.
	l := listen(t, dir)
	go func() {
		g := accept(t, l)
		r, _ := g.read()
		g.answer(api.Response{ID: r.ID, Action: action("act_1")})
		g.read()
	}()
	if x, err := c.Act(within(t), httpCall("https://a.example/")); err != nil || x.ID != "act_1" {
		t.Errorf("got %q, %v", x.ID, err)
	}
}

// A call in flight is told that it may have taken effect, and is not repeated; the next one dials again.
func TestBrokeInFlight(t *testing.T) {
	h, dir := place(t)
	l := listen(t, dir)
	c := client.Agent(h)
	defer c.Close()
	seen := make(chan string, 4)
	go func() {
		g := accept(t, l)
		r, _ := g.read()
		seen <- r.ID
		g.Close()
		g = accept(t, l)
		r, _ = g.read()
		seen <- r.ID
		g.answer(api.Response{ID: r.ID, Action: action("second")})
		g.read()
	}()
	_, err := c.Act(within(t), httpCall("https://a.example/"))
	want(t, err, "gateway_restarted")
	if x, err := c.Act(within(t), httpCall("https://b.example/")); err != nil || x.ID != "second" {
		t.Errorf("got %q, %v", x.ID, err)
	}
	if a, b := <-seen, <-seen; a == b {
		t.Errorf("the id %s was used twice", a)
	}
}

// A gateway that restarts while nobody speaks costs nobody a call. Each round the reader may or may not have noticed.
func TestBrokeWhileIdle(t *testing.T) {
	h, dir := place(t)
	l := listen(t, dir)
	c := client.Agent(h)
	defer c.Close()
	const rounds = 50
	closed := make(chan struct{})
	go func() {
		for range rounds {
			g := accept(t, l)
			r, ok := g.read()
			if !ok {
				t.Error("a connection without a call")
				return
			}
			g.answer(api.Response{ID: r.ID, Action: action("act_" + r.ID)})
			g.Close()
			closed <- struct{}{}
		}
	}()
	for i := range rounds {
		if _, err := c.Act(within(t), httpCall("https://a.example/")); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		<-closed
	}
}

func TestCloseInFlight(t *testing.T) {
	h, dir := place(t)
	l := listen(t, dir)
	c := client.Agent(h)
	go func() {
		g := accept(t, l)
		g.read()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	_, err := c.Act(within(t), httpCall("https://a.example/"))
	want(t, err, "gateway_restarted")
	_, err = c.Act(within(t), httpCall("https://a.example/"))
	want(t, err, "gateway_unreachable")
}

// A gateway that does not read can't hold a caller beyond its time.
func TestBlockedWrite(t *testing.T) {
	h, dir := place(t)
	l := listen(t, dir)
	c := client.Agent(h)
	defer c.Close()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		g := accept(t, l)
		if _, err := g.Read(make([]byte, 1)); err != nil { // the frame is on its way, and now it gets stuck
			t.Error(err)
		}
		cancel()
	}()
	_, err := c.Act(ctx, httpCall("https://a.example/"+strings.Repeat("x", 8<<20)))
	want(t, err, "not_sent")
	<-done
}

// I21: sp does not speak to a socket that others could have put there.
func TestNotOurs(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"folder 0777": func(t *testing.T, dir string) {
			listen(t, dir)
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
		},
		"folder 0750": func(t *testing.T, dir string) {
			listen(t, dir)
			if err := os.Chmod(dir, 0o750); err != nil {
				t.Fatal(err)
			}
		},
		"folder is a symlink": func(t *testing.T, dir string) {
			if err := os.Rename(dir, dir+"2"); err != nil {
				t.Fatal(err)
			}
			listen(t, dir+"2")
			if err := os.Symlink(dir+"2", dir); err != nil {
				t.Fatal(err)
			}
		},
		"socket is a file": func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "agent.sock"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"socket is a symlink": func(t *testing.T, dir string) {
			other := world(t)
			listen(t, other)
			if err := os.Symlink(filepath.Join(other, "agent.sock"), filepath.Join(dir, "agent.sock")); err != nil {
				t.Fatal(err)
			}
		},
		"socket is another's": func(t *testing.T, dir string) {
			if os.Geteuid() != 0 {
				t.Skip("root: only root can give a file away")
			}
			listen(t, dir)
			if err := os.Lchown(filepath.Join(dir, "agent.sock"), 65534, 65534); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := place(t)
			spoil(t, dir)
			c := client.Agent(h)
			defer c.Close()
			_, err := c.Session(within(t))
			want(t, err, "gateway_unreachable")
			var e *api.Error
			if errors.As(err, &e); e.Reason == api.Lookup("gateway_unreachable").Reason || !strings.Contains(e.Retry, "chmod 700") {
				t.Errorf("refused without its reason: %+v", e)
			}
		})
	}
}

// The socket file can be ours and the process behind it another's: the kernel says whose it is.
func TestServerIsAnothers(t *testing.T) {
	h, dir := place(t)
	// The stranger binds where it may; the file is then moved into our folder and made ours.
	open := world(t)
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(open, "agent.sock")
	quiet := stranger(t, path)
	if err := os.Rename(path, filepath.Join(dir, "agent.sock")); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(filepath.Join(dir, "agent.sock"), 0, 0); err != nil {
		t.Fatal(err)
	}
	c := client.Agent(h)
	defer c.Close()
	_, err := c.Act(within(t), httpCall("https://a.example/"))
	want(t, err, "gateway_unreachable")
	if !strings.Contains(err.Error(), "uid 65534") {
		t.Errorf("the reason does not name the uid: %v", err)
	}
	if said := quiet(); said != "" {
		t.Errorf("something was said to the stranger: %q", said)
	}
}

// A dead socket is passed over, a live one further down the list answers.
func TestCandidates(t *testing.T) {
	base := world(t)
	run, data := filepath.Join(base, "run"), filepath.Join(base, "data", "sallyport")
	for _, d := range []string{run, filepath.Join(run, "sallyport"), data} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h := findXDG(t, base, run)
	if h.AgentSockets()[0] != filepath.Join(run, "sallyport", "agent.sock") {
		t.Skip("xdg: this system has no runtime folders: " + h.AgentSockets()[0])
	}
	dead := listen(t, filepath.Join(run, "sallyport"))
	dead.SetUnlinkOnClose(false)
	dead.Close()
	l := listen(t, data)
	go func() {
		g := accept(t, l)
		r, _ := g.read()
		g.answer(api.Response{ID: r.ID, Action: action("from data")})
		g.read()
	}()
	c := client.Agent(h)
	defer c.Close()
	if x, err := c.Act(within(t), httpCall("https://a.example/")); err != nil || x.ID != "from data" {
		t.Errorf("got %q, %v", x.ID, err)
	}
}
