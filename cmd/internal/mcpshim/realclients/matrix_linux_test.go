package realclients_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
)

// TestMatrix plays every situation with every client, over the real sp mcp and spd.
func TestMatrix(t *testing.T) {
	t.Parallel()
	all := sdks(t)
	s := newStage(t)
	const never = 24 * time.Hour
	var clients sync.WaitGroup
	n := 0
	for name, argv := range all {
		s.target(name, 0)
		s.target("kill-"+name, 0)
		s.target("never-"+name, never)
		s.target("late-"+name, time.Minute)
		n += 100
		n := n
		for what, play := range map[string]func(*stage, string, []string, int){"session": session, "wait": wait, "kill": kill} {
			clients.Go(func() {
				began := time.Now()
				play(s, name, argv, n)
				t.Logf("%s: %s, %v", name, what, time.Since(began).Round(time.Second))
			})
		}
	}
	clients.Wait()
}

// answer is a line of a driver.
type answer struct {
	ID       int            `json:"id"`
	OK       bool           `json:"ok"`
	Error    string         `json:"error"`
	Code     jsontext.Value `json:"code"`
	Progress *float64       `json:"progress"`
	Result   struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
		IsError bool `json:"isError"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		Structured struct {
			ID    string         `json:"id"`
			Error jsontext.Value `json:"error"` // of a refusal its code, of an action that failed a whole one
			State string         `json:"state"`
		} `json:"structuredContent"`
	} `json:"result"`

	Connected   bool   `json:"connected"`
	PID         int    `json:"pid"`  // the shim
	Host        int    `json:"host"` // what started it, where that isn't the driver itself
	Era         string `json:"era"`
	Declared    bool   `json:"listChangedDeclared"`
	ListChanged bool   `json:"listChanged"`
	Closed      bool   `json:"closed"`
}

func (a answer) text() string {
	if len(a.Result.Content) == 0 {
		return a.Error
	}
	return a.Result.Content[0].Text
}

// driver is a running client.
type driver struct {
	s    *stage
	name string
	cmd  *exec.Cmd
	host *os.Process // what has the shim
	in   io.WriteCloser
	out  chan answer // closed at its end
	hail answer      // its first line

	progress map[int]int // by call
	closed   bool
	changed  int
	last     int
}

// drive starts a client over sp mcp; nil: it did not come up.
func (s *stage) drive(name string, argv []string) *driver {
	cmd := exec.Command(argv[0], append(argv[1:len(argv):len(argv)], filepath.Join(s.bin, "sp"), "mcp")...)
	cmd.Env, cmd.Stderr = s.env(), s.t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Error(err)
		return nil
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Error(err)
		return nil
	}
	if err := cmd.Start(); err != nil {
		s.t.Error(err)
		return nil
	}
	s.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	d := &driver{s: s, name: name, cmd: cmd, in: in, out: make(chan answer, 1024), progress: map[int]int{}}
	go func() {
		defer close(d.out)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			var a answer
			if err := json.Unmarshal(line, &a); err != nil {
				s.t.Errorf("%s: %v: %s", name, err, line)
				return
			}
			d.out <- a
		}
	}()
	d.hail = d.hear(func(a answer) bool { return a.Connected })
	if d.host = cmd.Process; d.hail.Host != 0 {
		if d.host, err = os.FindProcess(d.hail.Host); err != nil {
			s.t.Error(err)
			return nil
		}
		s.t.Cleanup(func() { d.host.Kill() })
	}
	return d
}

// hear reads until a line is what is waited for; the others are counted.
func (d *driver) hear(want func(answer) bool) answer {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case a, ok := <-d.out:
			if !ok {
				d.s.t.Errorf("%s: the client ended", d.name)
				return answer{}
			}
			if a.Progress != nil {
				d.progress[a.ID]++
			}
			d.closed = d.closed || a.Closed
			if a.ListChanged {
				d.changed++
			}
			if want(a) {
				return a
			}
		case <-limit.C:
			d.s.t.Errorf("%s: no answer within %v", d.name, patience)
			return answer{}
		}
	}
}

// tell sends a wish and returns its number.
func (d *driver) tell(w wish) int {
	d.last++
	w.ID = d.last
	b, err := json.Marshal(w)
	if err == nil {
		_, err = d.in.Write(append(b, '\n'))
	}
	if err != nil {
		d.s.t.Errorf("%s: %v", d.name, err)
	}
	return w.ID
}

// ask sends a wish and waits for its answer.
func (d *driver) ask(w wish) answer {
	id := d.tell(w)
	return d.hear(func(a answer) bool { return a.ID == id && a.Progress == nil })
}

// http is a call of http_request.
func (s *stage) http(method, credential string, n int, how string) wish {
	args := fmt.Sprintf(`{"target":%q,"path":"/%s/%d/%s","method":%q}`, credential, credential, n, how, method)
	return wish{Op: "call", Name: "http_request", Args: jsontext.Value(args)}
}

// session: list, call, isError, cancel, a client's own timeout of 500 ms, list_changed; then an orderly end.
func session(s *stage, name string, argv []string, n int) {
	d := s.drive(name, argv)
	if d == nil || !d.hail.Connected {
		return
	}
	t := s.t
	if want := map[bool]string{true: "modern", false: "legacy"}[name == "ts-v2-auto" || name == "inspector"]; name != "go" && d.hail.Era != want || !d.hail.Declared {
		t.Errorf("%s: connected as %+v", name, d.hail)
	}
	if a := d.ask(wish{Op: "list"}); !a.OK || len(a.Result.Tools) < 9 {
		t.Errorf("%s: list: %+v", name, a)
	}
	if a := d.ask(s.http("POST", name, n, "echo")); !a.OK || a.Result.IsError || !strings.Contains(a.text(), fmt.Sprintf("done %d", n)) || strings.Contains(a.text(), secret) {
		t.Errorf("%s: call: %+v", name, a)
	}
	if a := d.ask(s.http("GET", "nowhere", n+1, "answer")); !a.OK || !a.Result.IsError || a.Result.Structured.Error.Kind() != '"' || !strings.Contains(a.text(), strings.Trim(string(a.Result.Structured.Error), `"`)) {
		t.Errorf("%s: isError: %+v", name, a)
	}
	// Cancelled while its card waits: the card goes, nothing is sent.
	w := s.http("POST", "never-"+name, n+2, "answer")
	w.Once = true
	id := d.tell(w)
	s.until(name+": a card", func() bool { return s.cards("never-"+name) == 1 })
	d.tell(wish{Op: "abort", Call: id})
	if a := d.hear(func(a answer) bool { return a.ID == id }); a.OK {
		t.Errorf("%s: cancelled: %+v", name, a)
	}
	s.until(name+": the card's end", func() bool { return s.cards("never-"+name) == 0 })
	if name != "inspector" { // whose calls have no limit of the user's
		w := s.http("POST", "never-"+name, n+3, "answer")
		w.Timeout = 500
		if a := d.ask(w); a.OK {
			t.Errorf("%s: timeout: %+v", name, a)
		}
		s.until(name+": the card's end after a timeout", func() bool { return s.cards("never-"+name) == 0 })
	}
	if a := d.ask(s.http("GET", name, n+4, "answer")); !a.OK || a.Result.IsError {
		t.Errorf("%s: the call after: %+v", name, a)
	}
	for i, want := range []int{1, 0, 0, 0, 1} {
		if got := s.far.count(n + i); got != want {
			t.Errorf("%s: call %d arrived %d times, want %d", name, i, got, want)
		}
	}
	for _, a := range s.actions("never-" + name) {
		if a.State != api.Done || a.Error != nil && a.Error.Code == "approval_timeout" {
			t.Errorf("%s: a call that was taken back ended as %s, %v", name, a.State, a.Error)
		}
	}
	if d.changed != 0 { // the list of sp's own tools never changes
		t.Errorf("%s: %d list_changed", name, d.changed)
	}
	d.in.Close()
	for range d.out {
	}
	s.gone(name, d.hail.PID)
}

// wait: a card that is approved after a minute, for a client that wants progress and for one that does not. The call says
// pending before the client's own limit of 60 s; its result is fetched by its id, in the client's own session.
func wait(s *stage, name string, argv []string, n int) {
	var both sync.WaitGroup
	for i, progress := range []bool{false, true} {
		both.Go(func() {
			d := s.drive(name, argv)
			if d == nil || !d.hail.Connected {
				return
			}
			w := s.http("POST", "late-"+name, n+10+i, "answer")
			w.Progress = progress
			id := d.tell(w)
			a := d.hear(func(a answer) bool { return a.ID == id && a.Progress == nil })
			if !a.OK || a.Result.IsError || a.Result.Structured.State != "pending" {
				s.t.Errorf("%s, progress %v: %+v", name, progress, a)
			}
			if got := d.progress[id]; (got >= 2) != progress && name != "inspector" { // which wants none
				s.t.Errorf("%s, progress %v: told %d times", name, progress, got)
			}
			for range 4 { // 40 s each
				a = d.ask(wish{Op: "call", Name: "action_status", Args: jsontext.Value(fmt.Sprintf(`{"action":%q,"waitSeconds":40}`, a.Result.Structured.ID))})
				if a.Result.Structured.State == "done" || !a.OK {
					break
				}
			}
			if !a.OK || a.Result.IsError || !strings.Contains(a.text(), fmt.Sprintf("done %d", n+10+i)) || s.far.count(n+10+i) != 1 {
				s.t.Errorf("%s, progress %v, in the end: %+v, arrived %d times", name, progress, a, s.far.count(n+10+i))
			}
			d.in.Close()
			for range d.out {
			}
		})
	}
	both.Wait()
}

// kill: SIGKILL to the client or to the shim, idle or with a call in flight. What was sent is made once and recorded; the
// shim does not outlive its client.
func kill(s *stage, name string, argv []string, n int) {
	credential := "kill-" + name // the other plays' actions are none of this one's
	for i, victim := range []string{"client", "shim"} {
		for j, doing := range []string{"nothing", "GET", "POST"} {
			what := fmt.Sprintf("%s: %s killed doing %s", name, victim, doing)
			n := n + 20 + 10*i + j
			d := s.drive(name, argv)
			if d == nil || !d.hail.Connected {
				return
			}
			if doing != "nothing" {
				d.tell(s.http(doing, credential, n, "hold"))
				select {
				case <-s.far.arrived(n):
				case <-time.After(patience):
					s.t.Errorf("%s: it never arrived", what)
					return
				}
			}
			p, err := d.host, error(nil)
			if victim == "shim" {
				p, err = os.FindProcess(d.hail.PID)
			}
			if err == nil {
				err = p.Kill()
			}
			if err != nil {
				s.t.Errorf("%s: %v", what, err)
			}
			if victim == "shim" && doing != "nothing" {
				if a := d.hear(func(a answer) bool { return a.ID == d.last && a.Progress == nil }); a.OK {
					s.t.Errorf("%s: the client was told %+v", what, a)
				}
			}
			s.gone(what, d.hail.PID)
			d.host.Kill()
			d.cmd.Process.Kill()
			for range d.out {
			}
			if doing == "nothing" {
				continue
			}
			s.far.release(n)
			s.until(what+": its end, recorded", func() bool {
				for _, a := range s.actions(credential) {
					if a.State != api.Done {
						return false
					}
				}
				return true
			})
			if all := s.actions(credential); all[0].Outcome != "confirmed" || s.far.count(n) != 1 {
				s.t.Errorf("%s: %s, arrived %d times", what, all[0].Outcome, s.far.count(n))
			}
		}
	}
}

// cards counts what waits for the operator's word.
func (s *stage) cards(credential string) (n int) {
	var cards []api.Approval
	if err := s.look(api.PathApprovalList, struct{}{}, &cards); err != nil {
		s.t.Errorf("list cards: %v", err)
	}
	for _, c := range cards {
		if c.Credential == credential {
			n++
		}
	}
	return n
}

// gone waits until a process has ended, reaped or not.
func (s *stage) gone(what string, pid int) {
	s.t.Helper()
	s.until(what+": the end of its shim", func() bool {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return true
		}
		_, after, _ := strings.Cut(string(b), ") ")
		return strings.HasPrefix(after, "Z") || !strings.Contains(string(b), "(sp)")
	})
}
