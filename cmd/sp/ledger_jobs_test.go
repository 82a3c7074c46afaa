package main_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// TestLedgerJobs starts jobs on OpenSSH's sshd by the real programs, and each time cuts the connection somewhere (before the
// start, before its answer, while the job runs, behind its end), or kills the client, the shim or spd. Whatever ran has run
// once, and its exit status is found and recorded once. 12 jobs, 240 with SALLYPORT_LONG=1.
func TestLedgerJobs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are found through /proc")
	}
	if err := canServeSSH(); err != nil {
		if os.Getenv("SALLYPORT_REAL") == "require" {
			t.Fatal(err)
		}
		t.Skip("sshd:", err)
	}
	w := newWorld(t)
	far := w.realHost()
	jobs := 12
	if os.Getenv("SALLYPORT_LONG") == "1" {
		jobs *= 20
	}
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("SALLYPORT_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for n := 1; n <= jobs; n++ {
		w.jobInTrouble(r, n, far)
	}
	far.limit(0, -1)
	w.restart()
	w.settle(far, jobs)
	if err := w.operator(api.PathLock, struct{}{}, nil); err != nil {
		t.Error(err)
	}
	w.kill()
	log := w.read() // the chain and the meaning hold
	ends, exits, err := w.jobEnds()
	if err != nil {
		t.Fatal(err)
	}
	ran, told := 0, map[string]int{}
	for n := 1; n <= jobs; n++ {
		seen := far.seen(n)
		ran += seen
		told[strings.Join(log[n].ends, " ")]++
		switch {
		case seen > 1:
			t.Errorf("job %d ran %d times", n, seen)
		case seen == 1 && (ends[n] != 1 || exits[n] != 7):
			t.Errorf("job %d (%v) ran, and %d ends are recorded, exit %d", n, log[n].ends, ends[n], exits[n])
		case seen == 0 && exits[n] != 0:
			t.Errorf("job %d did not run, and its exit is recorded as %d", n, exits[n])
		}
	}
	t.Logf("%d of %d ran; %v", ran, jobs, told)
	if ran == 0 {
		t.Error("none ran: this proves nothing")
	}
}

// farHost is an sshd behind a line that can be cut, and what its jobs wrote.
type farHost struct {
	to, book string

	mu    sync.Mutex
	way   int // 0 up to the host, 1 down from it
	left  int // bytes before the cut; below zero: none
	conns []net.Conn
}

// realHost stores it as the host "real", whose account may run any sh.
func (w *world) realHost() *farHost {
	w.t.Helper()
	dir := w.t.TempDir()
	cmd, addr, err := serveSSHD(dir, io.Discard)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	far := &farHost{to: addr, book: filepath.Join(dir, "book"), left: -1}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() { far.serve(l, &work) })
	w.t.Cleanup(func() { l.Close(); far.cut(); work.Wait() })
	key, err := os.ReadFile(filepath.Join(dir, "id"))
	if err != nil {
		w.t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		w.t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			w.t.Fatal("sshd is not up")
		}
	}
	w.sp(key, "secret", "add", "real-key", "--kind", "ssh-key")
	w.sp(nil, "host", "add", "real", "--address", l.Addr().String(), "--user", me.Username, "--credential", "real-key",
		"--host-key", filepath.Join(dir, "sshd.pub"), "--allow-network", "127.0.0.0/8", "--allow-argv", `["sh","-c","*"]`)
	return far
}

func (f *farHost) serve(l net.Listener, work *sync.WaitGroup) {
	for {
		a, err := l.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", f.to)
		if err != nil {
			a.Close()
			continue
		}
		f.mu.Lock()
		f.conns = append(f.conns, a, b)
		f.mu.Unlock()
		work.Go(func() { f.pipe(b, a, 0) })
		work.Go(func() { f.pipe(a, b, 1) })
	}
}

func (f *farHost) pipe(to, from net.Conn, way int) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		f.mu.Lock()
		over := f.way == way && f.left >= 0 && n > f.left
		if over {
			n, f.left = f.left, -1
		} else if f.way == way && f.left >= 0 {
			f.left -= n
		}
		f.mu.Unlock()
		if _, err = to.Write(buf[:n]); err != nil || over {
			return
		}
	}
}

// limit has the connection end after n bytes that way, once.
func (f *farHost) limit(way, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.way, f.left = way, n
}

func (f *farHost) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.Close()
	}
	f.conns = nil
}

func (f *farHost) seen(n int) int {
	b, _ := os.ReadFile(f.book)
	return strings.Count(string(b), fmt.Sprintf("ran %d\n", n))
}

// jobInTrouble starts one job by a client of its own, and has something go wrong meanwhile.
func (w *world) jobInTrouble(r *rand.Rand, n int, far *farHost) {
	w.ready()
	mcp := r.IntN(2) == 0
	args := []string{"sp", "call", "-"}
	if mcp {
		args = []string{"sp", "mcp"}
	}
	cmd := exec.Command(filepath.Join(w.bin, "agent"), args...)
	cmd.Env = w.env
	in, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Process.Kill(); cmd.Wait() }()
	script := fmt.Sprintf("echo ran %d >>%s; sleep 0.%d; exit 7; : ledger %d job", n, far.book, 1+r.IntN(5), n)
	call := map[string]any{"target": "real", "argv": []string{"sh", "-c", script}}
	line := map[string]any{"tool": api.ToolJob, "args": call}
	if mcp {
		line = map[string]any{"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": map[string]any{"name": api.ToolJob, "arguments": call}}
		io.WriteString(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"agent","version":"1"}}}`+"\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	}
	b, err := json.Marshal(line)
	if err != nil {
		w.t.Fatal(err)
	}
	soon := time.Duration(r.IntN(400)) * time.Millisecond
	trouble := n % 6
	switch trouble {
	case 0, 1: // a handshake and a start are some eight thousand bytes up and four thousand down
		far.limit(trouble, r.IntN([]int{9000, 4500}[trouble]))
	}
	if _, err := in.Write(append(b, '\n')); err != nil {
		w.t.Fatal(err)
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		lines := bufio.NewReaderSize(out, 1<<20)
		for range map[bool]int{true: 2, false: 1}[mcp] {
			if _, err := lines.ReadBytes('\n'); err != nil {
				return
			}
		}
	}()
	switch trouble {
	case 2:
		time.Sleep(soon)
		cmd.Process.Kill()
	case 3:
		time.Sleep(soon)
		if shim := childOf(cmd.Process.Pid); shim > 0 {
			if p, err := os.FindProcess(shim); err == nil {
				p.Kill()
			}
		}
		cmd.Process.Kill()
	case 4:
		time.Sleep(soon)
		w.restart()
		cmd.Process.Kill()
	case 5:
		time.Sleep(soon)
		far.cut()
	}
	select {
	case <-answered:
	case <-time.After(2 * time.Minute):
		w.t.Errorf("job %d: no answer", n)
	}
}

// settle waits until the end of every job that ran is recorded.
func (w *world) settle(far *farHost, jobs int) {
	w.t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		ends, _, err := w.jobEnds()
		open := 0
		if err != nil {
			continue // spd is writing
		}
		for n := 1; n <= jobs; n++ {
			if far.seen(n) > ends[n] {
				open++
			}
		}
		if open == 0 {
			return
		}
	}
	w.t.Error("not every job's end was found")
}

// jobEnds reads how often each job's end is recorded, and its exit status.
func (w *world) jobEnds() (ends, exits map[int]int, err error) {
	pub, err := os.ReadFile(filepath.Join(w.dir, "audit.pub"))
	if err != nil {
		return nil, nil, err
	}
	number := map[string]int{}
	ends, exits = map[int]int{}, map[int]int{}
	for r, err := range auditlog.Read(os.DirFS(filepath.Join(w.dir, "audit")), pub, w.made.ReaderIdentity) {
		if err != nil {
			return nil, nil, err
		}
		ev, err := event.Decode(r.Body)
		if err != nil {
			return nil, nil, err
		}
		switch e := ev.(type) {
		case event.ToolCalled:
			number[e.Action], _ = numbered(e.Preview)
		case event.JobChanged:
			if e.Exit != nil {
				n := number[e.Action]
				ends[n]++
				exits[n] = *e.Exit
			}
		}
	}
	return ends, exits, nil
}
