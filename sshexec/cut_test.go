package sshexec_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sallyport/sshexec"
)

// cutter is a proxy that ends every connection once a number of bytes has passed it in one direction.
type cutter struct {
	to    string
	mu    sync.Mutex
	past  [2]int // bytes: up to the host, down from it
	limit [2]int // of each; below zero: none
	conns []net.Conn
}

func startCutter(t *testing.T, to string) (*cutter, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{to: to, limit: [2]int{-1, -1}}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				_ = a.Close()
				continue
			}
			c.mu.Lock()
			c.conns = append(c.conns, a, b)
			c.mu.Unlock()
			work.Go(func() { c.pipe(b, a, 0) })
			work.Go(func() { c.pipe(a, b, 1) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); c.cut(); work.Wait() })
	return c, l.Addr().String()
}

func (c *cutter) pipe(to, from net.Conn, way int) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		c.mu.Lock()
		over := c.limit[way] >= 0 && c.past[way]+n > c.limit[way]
		if over {
			n = c.limit[way] - c.past[way]
		}
		c.past[way] += n
		c.mu.Unlock()
		_, err = to.Write(buf[:n])
		if over {
			c.cut()
		}
		if over || err != nil {
			return
		}
	}
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.conns {
		_ = x.Close()
	}
	c.conns = nil
}

// from now on count anew, and end after n bytes that way.
func (c *cutter) after(way, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.past, c.limit = [2]int{}, [2]int{-1, -1}
	c.limit[way] = n
}

// S08 and S12: a start whose connection ends after any number of bytes, either way, is told as what is known of it; started
// again by its id it has run once.
func TestSSHDJobCutAnywhere(t *testing.T) {
	s := startSSHD(t, nil, "")
	direct := &jobBed{sshd: s, shell: "posix"}
	c, addr := startCutter(t, s.target.Address)
	own := *s.bed
	own.target.Address, own.auth.Run = addr, "cut"
	through := &jobBed{sshd: &sshd{bed: &own, dir: s.dir, log: s.log}, shell: "posix"}
	ledger := filepath.Join(t.TempDir(), "ledger")
	start := func(id string) (sshexec.Command, sshexec.Match) {
		argv := []string{"sh", "-c", "cat >>" + ledger + "; exit 7"}
		r, err := rules(t, "posix", argv)
		if err != nil {
			t.Fatal(err)
		}
		cmd := command(t, sshexec.Input{Argv: argv, Stdin: []byte("ran " + id + "\n" + strings.Repeat("x", 20_000) + "\n")})
		m, err := r.Match(cmd)
		if err != nil {
			t.Fatal(err)
		}
		return cmd, m
	}
	try := func(id string, way, n int) sshexec.Result {
		cmd, m := start(id)
		c.after(way, -1)
		conn := through.dial(t)
		defer through.pool.Put(conn)
		c.after(way, n)
		r, err := conn.StartJob(t.Context(), id, cmd, m)
		if err != nil {
			t.Fatal(err)
		}
		through.drop()
		return r
	}
	if r := try(fresh(t, "whole"), 0, 1<<30); r.Outcome != sshexec.Accepted {
		t.Fatalf("%+v", r)
	}
	c.mu.Lock()
	whole := c.past
	c.mu.Unlock()
	told := map[sshexec.Outcome]int{}
	for way := range whole {
		for i := range 8 {
			id := fresh(t, fmt.Sprintf("at%d%d", way, i))
			r := try(id, way, whole[way]*i/7)
			told[r.Outcome]++
			switch r.Outcome {
			case sshexec.Accepted, sshexec.SentUnconfirmed:
			case sshexec.NotSent:
				if j, _, _ := direct.status(t, id); j.State != sshexec.JobNone {
					t.Errorf("%s was not sent, and is %+v", id, j)
				}
			default:
				t.Errorf("%s: %+v", id, r)
			}
			cmd, m := start(id)
			conn := direct.dial(t)
			again, err := conn.StartJob(t.Context(), id, cmd, m)
			direct.pool.Put(conn)
			if err != nil || again.Outcome != sshexec.Accepted {
				t.Errorf("%s again: %+v %v", id, again, err)
			}
			if j, _, _ := direct.ended(t, id); j.State != sshexec.JobEnded || j.ExitStatus != 7 {
				t.Errorf("%s: %+v", id, j)
			}
			if b, _ := os.ReadFile(ledger); strings.Count(string(b), "ran "+id+"\n") != 1 {
				t.Errorf("%s ran %d times", id, strings.Count(string(b), "ran "+id+"\n"))
			}
		}
	}
	if told[sshexec.SentUnconfirmed] == 0 {
		t.Errorf("no cut was felt: %v", told)
	}
	t.Logf("%v", told)
}
