package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sallyport/auditlog/event"
)

func sortedKeys[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// TestSupervisedKills kills, in turn, host, wrapper, server and spd while a supervised server is idle, has a card open, is
// reading, has not yet written, or has written and not answered. Afterwards nothing runs that should not, each write happened once at
// most, what the log says of the call fits, and it names the run and the epoch.
func TestSupervisedKills(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("supervised servers are recognised through /proc")
	}
	w := bareWorld(t)
	moments := []string{"idle", "card", "read", "before", "after"}
	t.Run("processes", func(t *testing.T) {
		for _, victim := range []string{"host", "wrapper", "server"} {
			for _, moment := range moments {
				t.Run(victim+"/"+moment, func(t *testing.T) {
					t.Parallel()
					k := newKilling(t, w, moment)
					k.kill(victim)
					k.judge(victim)
				})
			}
		}
	})
	t.Run("spd", func(t *testing.T) { // one restart for all
		all := make([]*killing, len(moments))
		for i, moment := range moments {
			all[i] = newKilling(t, w, moment)
		}
		w.restart()
		for _, k := range all {
			k.judge("spd")
		}
	})
}

// killing is one host at one moment.
type killing struct {
	*host
	moment          string
	id              string // of the call under way; "" none
	wrapper, server int
}

func newKilling(t *testing.T, w *world, moment string) *killing {
	t.Helper()
	k := &killing{moment: moment, host: python(t, w, nil, plainTool("wait_read"), plainTool("wait_before"), plainTool("wait_after"))}
	k.greet()
	fmt.Sscanf(k.status("server started:", 1)[2], "pid=%d", &k.server)
	k.wrapper = parentOf(k.server)
	if k.server == 0 || k.wrapper == 0 {
		t.Fatalf("server %d, wrapper %d", k.server, k.wrapper)
	}
	tool := map[string]string{"card": "wait_before", "read": "wait_read", "before": "wait_before", "after": "wait_after"}[moment]
	if moment == "idle" {
		return k
	}
	args := `{"marker":"1","gate":"` + filepath.Join(k.dir, "gate") + `"}`
	k.call(tool, args)
	k.card(tool)
	if moment == "card" {
		return k
	}
	k.approve(tool)
	k.id = k.ask("tools/call", `{"name":"`+tool+`","arguments":`+args+`}`)
	if moment == "after" {
		k.until("the write", func() bool { return len(k.wrote()) == 1 })
	} else {
		k.until("the call at the server", func() bool { _, err := os.Stat(filepath.Join(k.dir, "gate.asked")); return err == nil })
	}
	return k
}

// parentOf is a process's parent; 0 if it has ended.
func parentOf(pid int) (parent int) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if _, rest, ok := strings.Cut(string(b), ") "); err == nil && ok {
		var state string
		fmt.Sscan(rest, &state, &parent)
	}
	return parent
}

func (k *killing) kill(victim string) {
	k.t.Helper()
	pid := map[string]int{"host": k.cmd.Process.Pid, "wrapper": k.wrapper, "server": k.server}[victim]
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		k.t.Fatal(err)
	}
}

// judge looks at what is left, once the dead are dead.
func (k *killing) judge(victim string) {
	k.t.Helper()
	switch victim {
	case "host", "wrapper":
		k.gone(k.server)
		k.gone(k.wrapper)
	case "server":
		k.gone(k.server)
		if k.id != "" {
			if r := k.answer(k.id); r.code() != "sent_unconfirmed" || r.Result.Doc["oldEpoch"] == nil {
				k.t.Errorf("told %s", r.raw)
			}
		}
	case "spd":
		if k.id != "" {
			if r := k.answer(k.id); r.code() != "gateway_restarted" {
				k.t.Errorf("told %s", r.raw)
			}
		}
	}
	want := map[string]int{"after": 1}[k.moment]
	if got := len(k.wrote()); got != want {
		k.t.Errorf("%d writes, want %d", got, want)
	}
	if k.id == "" {
		return
	}
	var called event.ToolCalled
	k.recorded("the call's end", func(e event.Event) bool {
		switch e := e.(type) {
		case event.ToolCalled:
			if e.ServerLabel == k.label {
				called = e
			}
		case event.ToolFinished:
			if e.Action == called.Action && called.Action != "" {
				if e.Outcome != "sent_unconfirmed" {
					k.t.Errorf("recorded as %s", e.Outcome)
				}
				return true
			}
		case event.ToolUnresolved:
			return e.Action == called.Action && called.Action != ""
		}
		return false
	})
	if called.Run == "" || called.Epoch == "" || called.Grant == "" {
		k.t.Errorf("the log does not name the owner: %+v", called)
	}
}
