package peer

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hold ARG…: opens what it is told (unix:PATH, tcp:ADDRESS, file:PATH), says "up",
// starts the children it is told (child, zombie), and waits for the end of stdin.
func hold(args []string) error {
	for _, a := range args {
		kind, where, _ := strings.Cut(a, ":")
		var err error
		switch kind {
		case "unix", "tcp":
			_, err = net.Dial(kind, where)
		case "file":
			_, err = os.OpenFile(where, os.O_RDWR, 0)
		case "child":
			x := exec.Command("/proc/self/exe", "role:hold")
			if _, err = x.StdinPipe(); err == nil {
				err = x.Start()
			}
		case "zombie":
			x := exec.Command("/bin/true")
			if err = x.Start(); err == nil { // ended, and not reaped
				err = unix.Waitid(unix.P_PID, x.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
			}
		}
		if err != nil {
			return err
		}
	}
	os.Stdout.WriteString("up\n")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

type held struct {
	x   *exec.Cmd
	in  io.Closer
	p   *Process
	out *bufio.Reader
}

func startHold(t testing.TB, env []string, args ...string) held {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	x := exec.Command(exe, append([]string{"role:hold"}, args...)...)
	x.Env = append(os.Environ(), env...)
	x.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := x.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := x.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		syscall.Kill(-x.Process.Pid, syscall.SIGKILL) // a group of its own
		x.Wait()
	})
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); err != nil || line != "up\n" {
		t.Fatalf("said %q, %v", line, err)
	}
	p, err := Find(x.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return held{x, in, p, r}
}

func snapshot(t testing.TB, p *Process) Snapshot {
	t.Helper()
	s, err := p.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s Snapshot) fd(t *testing.T, f func(Descriptor) bool) Descriptor {
	t.Helper()
	i := slices.IndexFunc(s.Descriptors, f)
	if i < 0 {
		t.Fatalf("no such descriptor in %+v", s.Descriptors)
	}
	return s.Descriptors[i]
}

// M25: everything the record of an incident asks for.
func TestSnapshot(t *testing.T) {
	dir := t.TempDir()
	done := make(chan struct{}, 4)
	accept := func(network, address string) string {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			if c, err := l.Accept(); err == nil {
				t.Cleanup(func() { c.Close() })
			}
			done <- struct{}{}
		}()
		return l.Addr().String()
	}
	plain := accept("unix", filepath.Join(dir, "plain"))
	agent := accept("unix", filepath.Join(dir, "my-agent"))
	if err := os.Mkdir(filepath.Join(dir, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	control := accept("unix", filepath.Join(dir, ".ssh", "c"))
	tcp := accept("tcp", "127.0.0.1:0")
	key := filepath.Join(dir, ".ssh", "id_ed25519")
	if err := os.WriteFile(key, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := startHold(t, []string{"SSH_AUTH_SOCK=" + agent, "API_TOKEN=hunter2"}, "unix:"+plain, "unix:"+agent, "unix:"+control, "tcp:"+tcp, "file:"+key, "child", "zombie")
	for range 4 {
		<-done
	}
	s := snapshot(t, h.p)
	me := os.Getpid()
	if k := s.Process; k.PID != h.x.Process.Pid || k.PPID != me || k.PGID != k.PID || k.SID == 0 || k.Key != h.p.Key() ||
		len(k.Command) < 3 || k.Command[1] != "role:hold" || k.Start != h.p.Facts().Start && k.Start.Sub(h.p.Facts().Start).Abs() > time.Second {
		t.Errorf("process %+v", k)
	}
	if s.Exe != self(t) || s.UID != uint32(os.Geteuid()) || s.User == "" || s.Directory == "" || time.Since(s.At) > time.Minute {
		t.Errorf("facts %+v", s)
	}
	if !slices.Contains(s.Variables, "API_TOKEN") || slices.ContainsFunc(s.Variables, func(v string) bool { return strings.Contains(v, "hunter2") || strings.Contains(v, "=") }) {
		t.Errorf("variables %q", s.Variables)
	}
	for fd, mode := range map[int]string{0: "r", 1: "w"} {
		d := s.fd(t, func(d Descriptor) bool { return d.FD == fd })
		if d.Class != ClassPipe || d.Mode != mode || !slices.ContainsFunc(d.Peers, func(e End) bool { return e.PID == me && e.Comm != "" }) {
			t.Errorf("descriptor %d: %+v", fd, d)
		}
	}
	for class, address := range map[string]string{ClassLocal: plain, ClassSSHAgent: agent, ClassSSHControl: control} {
		d := s.fd(t, func(d Descriptor) bool { return d.Remote == address })
		if d.Class != class || d.Mode != "rw" || d.State != "connected" {
			t.Errorf("%s: %+v", class, d)
		}
	}
	if d := s.fd(t, func(d Descriptor) bool { return d.Remote == tcp }); d.Class != ClassTCP || d.State != "established" || !strings.HasPrefix(d.Local, "127.0.0.1:") {
		t.Errorf("tcp: %+v", d)
	}
	if d := s.fd(t, func(d Descriptor) bool { return d.Target == key }); d.Class != ClassKeyFile || d.Mode != "rw" {
		t.Errorf("key file: %+v", d)
	}
	if len(s.Children) != 2 || len(s.Group) != 2 {
		t.Fatalf("children %+v, group %+v", s.Children, s.Group)
	}
	zombies := 0
	for _, k := range s.Children {
		if k.PPID != s.Process.PID || k.PGID != s.Process.PGID || k.Key == "" {
			t.Errorf("child %+v", k)
		}
		if strings.HasPrefix(k.Stat, "Z") {
			zombies++
		}
	}
	if zombies != 1 {
		t.Errorf("%d zombies among %+v", zombies, s.Children)
	}
	if os.Geteuid() == 0 && len(s.Gaps) > 0 {
		t.Errorf("gaps %q", s.Gaps)
	}
}

// The other end of a socket is held by whoever accepted it, and by nobody once
// that has closed it.
func TestSnapshotSocketPeer(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h := startHold(t, nil, "unix:"+l.Addr().String())
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	is := func(d Descriptor) bool { return d.Class == ClassLocal && d.State != "" && d.Mode == "rw" }
	d := snapshot(t, h.p).fd(t, is)
	if len(d.Peers) != 1 || d.Peers[0].PID != os.Getpid() {
		t.Errorf("accepted: %+v", d)
	}
	c.Close()
	if d = snapshot(t, h.p).fd(t, is); len(d.Peers) != 0 || d.State != "no holder" {
		t.Errorf("closed: %+v", d)
	}
}

// A stdin whose writer has gone is a pipe without a peer: that it is open says
// nothing.
func TestSnapshotNoPeer(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	x := spawn(t, "/bin/sleep", []string{"1000"}, func(x *exec.Cmd) { x.Stdin = r })
	r.Close()
	p, err := Find(x.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	zero := func(d Descriptor) bool { return d.FD == 0 }
	if d := snapshot(t, p).fd(t, zero); len(d.Peers) == 0 {
		t.Errorf("with a writer: %+v", d)
	}
	w.Close()
	if d := snapshot(t, p).fd(t, zero); len(d.Peers) != 0 || d.Class != ClassPipe {
		t.Errorf("without: %+v", d)
	}
}

// The words are those of ps(1).
func TestSnapshotLikePS(t *testing.T) {
	ps, err := exec.LookPath("ps")
	if err != nil {
		if os.Getenv("SALLYPORT_REAL") == "require" {
			t.Fatal(err)
		}
		t.Skip("ps: not installed")
	}
	h := startHold(t, nil)
	leader := spawn(t, "/usr/bin/nice", []string{"-n", "3", "/bin/sleep", "1000"}, setsid)
	for _, pid := range []int{h.x.Process.Pid, leader.Process.Pid, os.Getpid(), 1} {
		p, err := Find(pid)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		agree := false
		var got, want string
		for range 1000 { // a process may change its state, and a second may pass, between two looks
			out, err := exec.Command(ps, "-ww", "-o", "pid=,ppid=,pgid=,sid=,stat=,etime=,euser:32=,args=", "-p", strconv.Itoa(pid)).Output()
			if err != nil {
				t.Fatal(err)
			}
			s := snapshot(t, p)
			k := s.Process
			want = strings.Join(strings.Fields(string(out)), " ")
			got = strings.Join(strings.Fields(strings.Join([]string{strconv.Itoa(k.PID), strconv.Itoa(k.PPID), strconv.Itoa(k.PGID), strconv.Itoa(k.SID), k.Stat, k.ETime,
				s.User, strings.Join(k.Command, " ")}, " ")), " ")
			if agree = got == want; agree {
				break
			}
		}
		if !agree {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestSnapshotGone(t *testing.T) {
	h := startHold(t, nil)
	h.in.Close()
	if _, err := h.out.ReadString('\n'); err != io.EOF {
		t.Fatal(err)
	}
	<-h.p.Gone()
	// A zombie still: it was not waited for.
	if s, err := h.p.Snapshot(); !errors.Is(err, ErrGone) || s.Process.PID != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	for name, f := range map[string]func() ([]*Process, error){"children": h.p.Children, "group": h.p.Group, "descendants": h.p.Descendants} {
		if ps, err := f(); !errors.Is(err, ErrGone) || ps != nil {
			t.Errorf("%s: %v, %v", name, ps, err)
		}
	}
	if _, err := h.p.Place(); !errors.Is(err, ErrGone) {
		t.Errorf("place: %v", err)
	}
	// Among others, only its own entry fails.
	me := startHold(t, nil)
	all, errs := Snapshots([]*Process{h.p, me.p})
	if !errors.Is(errs[0], ErrGone) || errs[1] != nil || all[1].Process.PID != me.x.Process.Pid {
		t.Errorf("%v", errs)
	}
}

func TestChildrenAndGroup(t *testing.T) {
	h := startHold(t, nil, "child", "child", "zombie")
	before := descriptors(t)
	kids, err := h.p.Children()
	if err != nil {
		t.Fatal(err)
	}
	group, err := h.p.Group()
	if err != nil {
		t.Fatal(err)
	}
	below, err := h.p.Descendants()
	if err != nil {
		t.Fatal(err)
	}
	if len(kids) != 2 || !slices.Equal(pids(kids), pids(group)) || !slices.Equal(pids(kids), pids(below)) {
		t.Errorf("children %v, group %v, descendants %v", pids(kids), pids(group), pids(below))
	}
	for _, q := range kids {
		if q.Facts().PPID != h.x.Process.Pid || q.Same() != nil {
			t.Errorf("child %+v", q.Facts())
		}
	}
	// A signal reaches that very process and no other.
	if err := kids[0].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-kids[0].Gone()
	left, err := h.p.Children()
	if err != nil || len(left) != 1 || left[0].Key() != kids[1].Key() {
		t.Errorf("left %v, %v", pids(left), err)
	}
	closeAll(slices.Concat(kids, group, below, left))
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, before %d", after, before)
	}
}

// An orphan is below whoever adopted it, not below its first parent.
func TestDescendantsDeep(t *testing.T) {
	h := spawn(t, "/bin/sh", []string{"-c", "sh -c 'sh -c \"sleep 1000; true\"; true'; true"}, setsid)
	t.Cleanup(func() { syscall.Kill(-h.Process.Pid, syscall.SIGKILL) })
	p, err := Find(h.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 100_000 {
		below, err := p.Descendants()
		if err != nil {
			t.Fatal(err)
		}
		got := pids(below)
		chain := len(below) == 3
		for i, q := range below {
			up := h.Process.Pid
			if i > 0 {
				up = got[i-1]
			}
			chain = chain && q.Facts().PPID == up
		}
		closeAll(below)
		if chain {
			return
		}
	}
	t.Error("three processes one below the other were never seen")
}

func TestPlace(t *testing.T) {
	h := startHold(t, []string{"A_NAME=a value", "EMPTY="})
	at, err := h.p.Place()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if at.Dir != dir || at.Foreign || !slices.Contains(at.Env, "A_NAME=a value") || !slices.Contains(at.Env, "EMPTY=") {
		t.Errorf("%q foreign %v %q", at.Dir, at.Foreign, at.Env)
	}
}

func TestEndpoint(t *testing.T) {
	for in, want := range map[string]string{
		"0100007F:1F90": "127.0.0.1:8080", "00000000:0000": "", "00000000:0016": "0.0.0.0:22",
		"00000000000000000000000001000000:0050": "[::1]:80", "0000000000000000FFFF00000100007F:01BB": "127.0.0.1:443",
		"": "", "x": "", "0100007F": "", "0100007:1F90": "", "0100007G:1F90": "", "0100007F:1F90F": "", "0100007F0100007F:0001": "",
	} {
		if got := endpoint(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestElapsed(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "00:00", -time.Second: "00:00", 61 * time.Second: "01:01", 3*time.Hour + 4*time.Second: "03:00:04",
		50*time.Hour + 59*time.Second: "02-02:00:59", 123 * 24 * time.Hour: "123-00:00:00"} {
		if got := elapsed(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestClasses(t *testing.T) {
	for target, want := range map[string]string{
		"pipe:[1]": ClassPipe, "socket:[1]": ClassSocket, "/dev/pts/0": ClassTerminal, "/dev/null": ClassDevice, "/dev/shm/x": ClassFile,
		"/home/u/.ssh/id_rsa": ClassKeyFile, "/home/u/.ssh/id_rsa.pub": ClassFile, "/home/u/.ssh/known_hosts": ClassFile, "/srv/tls.key (deleted)": ClassKeyFile,
		"/home/u/.aws/credentials": ClassKeyFile, "/home/u/.kube/config": ClassKeyFile, "/home/u/config": ClassFile, "anon_inode:[eventpoll]": ClassKernel,
		"/proj/.env": ClassKeyFile, "/proj/server.js": ClassFile,
	} {
		if got := classOf(target); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
	for _, tc := range []struct{ address, holder, want string }{
		{"/tmp/ssh-AbC/agent.12", "", ClassSSHAgent}, {"/run/user/1/keyring/ssh", "", ClassSSHAgent}, {"/x/any", "", ClassSSHAgent}, {"/y", "ssh-agent", ClassSSHAgent},
		{"/home/u/.ssh/cm-u@h:22", "", ClassSSHControl}, {"/tmp/ssh_mux_h_22_u", "", ClassSSHControl}, {"/y", "ssh", ClassSSHControl},
		{"/home/u/.cache/git-credential-cache/socket", "", ClassHelper}, {"/y", "git-credential-", ClassHelper}, {"/run/user/1/gnupg/S.gpg-agent", "", ClassHelper},
		{"/y", "node", ClassLocal}, {"", "", ClassLocal},
	} {
		if got := socketClass(tc.address, []string{"/x/any"}, []string{tc.holder}); got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}

func FuzzParseDiag(f *testing.F) {
	f.Add(make([]byte, 64))
	f.Add([]byte("\x30\x00\x00\x00\x14\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00\x02\x00\x05\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, peer, err := parseDiag(b)
		if err != nil && (s.class != "" || peer != 0) {
			t.Errorf("%+v, %d beside %v", s, peer, err)
		}
	})
}

// BenchmarkSnapshot takes one process with the descriptors of a server, then four
// such at one time, as when a run is contained. The goal is 5 ms a process; most
// of it is the look for the other ends, which grows with the machine's
// descriptors.
func BenchmarkSnapshot(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	args := []string{"child"}
	for range 20 {
		args = append(args, "tcp:"+l.Addr().String())
	}
	for _, n := range []int{1, 4} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var ps []*Process
			for range n {
				ps = append(ps, startHold(b, nil, args...).p)
			}
			for b.Loop() {
				if _, errs := Snapshots(ps); errors.Join(errs...) != nil {
					b.Fatal(errs)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N*n), "ms/process")
			all, links := 0, 0
			pids, err := processes()
			if err != nil {
				b.Fatal(err)
			}
			for _, pid := range pids {
				all++
				new(scratch).each(pid, func(int, string, int, []byte) bool { links++; return true })
			}
			b.ReportMetric(float64(all), "processes")
			b.ReportMetric(float64(links), "descriptors")
		})
	}
}
