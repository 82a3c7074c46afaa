package peer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func digestOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestFromConn(t *testing.T) {
	s := newServer(t)
	before := time.Now()
	x := s.client()
	_, p := s.peer()
	f := p.Facts()
	if f.PID != x.Process.Pid || f.PPID != os.Getpid() || f.UID != uint32(os.Geteuid()) {
		t.Errorf("pid %d, ppid %d, uid %d", f.PID, f.PPID, f.UID)
	}
	if sid, _ := unix.Getsid(0); f.SID != sid {
		t.Errorf("sid %d, want %d", f.SID, sid)
	}
	if f.Exe != self(t) || f.ExeDigest != digestOf(t, self(t)) {
		t.Errorf("exe %q %s", f.Exe, f.ExeDigest)
	}
	if !slices.Equal(f.Args, x.Args) {
		t.Errorf("args %q, want %q", f.Args, x.Args)
	}
	if d := f.Start.Sub(before); d < -time.Second || d > patience {
		t.Errorf("started %v after it was started", d)
	}
	if f.Identity != Strong || len(f.Weak) != 0 {
		t.Errorf("identity %s, weak %q", f.Identity, f.Weak)
	}
	if err := p.Same(); err != nil {
		t.Error(err)
	}
	f.Args[0] = "changed"
	if p.Facts().Args[0] == "changed" {
		t.Error("facts share memory with their copy")
	}
}

// I26: two clients with one command line are two processes.
func TestKey(t *testing.T) {
	s := newServer(t)
	s.client()
	c1, p1 := s.peer()
	s.client()
	_, p2 := s.peer()
	if !slices.Equal(p1.Facts().Args, p2.Facts().Args) {
		t.Fatal("command lines differ")
	}
	if p1.Key() == p2.Key() {
		t.Error("one key for two processes")
	}
	key := p1.Key()
	p1.Close() // the name must outlive our descriptors
	tell(t, c1, "again "+s.path)
	_, p3 := s.peer()
	if p3.Key() != key {
		t.Errorf("second connection of one process: key %s, was %s", p3.Key(), key)
	}
	if again := pinned(t, c1); again.Key() != key {
		t.Errorf("first connection again: key %s, was %s", again.Key(), key)
	}
}

// replaced has a client become file and speak, and returns what Same says.
func replaced(t *testing.T, file string, change ...func(*exec.Cmd)) (*Process, error) {
	t.Helper()
	s := newServer(t)
	spawn(t, self(t), []string{"role:client", s.path}, change...)
	c, p := s.peer()
	if err := p.Same(); err != nil {
		t.Fatal(err)
	}
	key := p.Key()
	tell(t, c, "exec "+file)
	b := make([]byte, 16)
	if n, err := Conn(c, p).Read(b); err != nil || string(b[:n]) != "hello" {
		t.Fatalf("read %q, %v: the same process speaks", b[:n], err)
	}
	if again := pinned(t, c); again.Key() != key {
		t.Errorf("key changed from %s to %s", key, again.Key())
	}
	return p, p.Same()
}

// I01: the peer becomes another program.
func TestExecOther(t *testing.T) {
	_, err := replaced(t, otherProgram(t, "other", "another"))
	want(t, err, ErrReplaced)
}

// I02: the peer becomes the same program again.
func TestExecSame(t *testing.T) {
	p, err := replaced(t, self(t))
	want(t, err, ErrReplaced)
	if p.Facts().Identity != Strong {
		t.Errorf("identity %s %q", p.Facts().Identity, p.Facts().Weak)
	}
}

// I02: without randomization the second start looks like the first, but for the
// map; the identity is weak.
func TestExecSameNotRandom(t *testing.T) {
	runtime.LockOSThread() // personality is the thread's; children inherit it
	defer runtime.UnlockOSThread()
	old, _, errno := unix.Syscall(unix.SYS_PERSONALITY, 0xffffffff, 0, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	if _, _, errno := unix.Syscall(unix.SYS_PERSONALITY, old|addrNoRandom, 0, 0); errno != 0 {
		t.Skip("personality: ", errno)
	}
	defer unix.Syscall(unix.SYS_PERSONALITY, old, 0, 0)
	p, err := replaced(t, self(t))
	want(t, err, ErrReplaced)
	if f := p.Facts(); f.Identity != Weak || !slices.Contains(f.Weak, WeakNotRandom) {
		t.Errorf("identity %s %q", f.Identity, f.Weak)
	}
}

// Each of the three parts of an instance is enough to tell a change.
func TestSameParts(t *testing.T) {
	s := newServer(t)
	s.client()
	c, _ := s.peer()
	for name, change := range map[string]func(*image){
		"map":    func(im *image) { im.maps.Close() },
		"auxv":   func(im *image) { im.auxv = slices.Clone(im.auxv); im.auxv[len(im.auxv)/2] ^= 1 },
		"digest": func(im *image) { im.digest = "sha256:00"; im.stamp.Store(new(stamp)) },
	} {
		p := pinned(t, c)
		if err := p.Same(); err != nil {
			t.Fatal(err)
		}
		change(p.image)
		if err := p.Same(); !errors.Is(err, ErrReplaced) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// I06: the file is replaced while it runs.
func TestBinaryReplaced(t *testing.T) {
	s := newServer(t)
	file := otherProgram(t, "tool", "old")
	old := digestOf(t, file)
	spawn(t, file, []string{"role:client", s.path})
	c, p := s.peer()
	if err := os.Rename(otherProgram(t, "tool", "new"), file); err != nil {
		t.Fatal(err)
	}
	if err := p.Same(); err != nil {
		t.Errorf("running image: %v", err)
	}
	if got := pinned(t, c).Facts(); got.ExeDigest != old || got.Exe != file+" (deleted)" {
		t.Errorf("running image: %q %s, want %s", got.Exe, got.ExeDigest, old)
	}
	spawn(t, file, []string{"role:client", s.path})
	_, q := s.peer()
	if got := q.Facts().ExeDigest; got == old || got != digestOf(t, file) {
		t.Errorf("new start: %s", got)
	}
}

// I07: a process that hides is nobody, for root as well.
func TestNotDumpable(t *testing.T) {
	for name, change := range map[string]func(*exec.Cmd){"own uid": func(*exec.Cmd) {}, "user": asUser} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.open()
			file := otherProgram(t, "tool", name)
			spawn(t, file, []string{"role:client", s.path, "hide"}, change)
			c := s.accept()
			p, err := FromConn(c)
			if err == nil {
				p.Close()
			}
			want(t, err, ErrUnidentified)
			spawn(t, file, []string{"role:client", s.path}, change)
			if _, p := s.peer(); p.Facts().Identity != Strong {
				t.Errorf("one that doesn't hide: %s %q", p.Facts().Identity, p.Facts().Weak)
			}
		})
	}
}

// I08: a name made to confuse a parser.
func TestComm(t *testing.T) {
	s := newServer(t)
	x := s.client("name")
	_, p := s.peer()
	f := p.Facts()
	if f.Comm != ") R 1 (\n2 3" || f.PPID != os.Getpid() || f.PID != x.Process.Pid {
		t.Errorf("comm %q, pid %d, ppid %d", f.Comm, f.PID, f.PPID)
	}
}

func TestDeadPeer(t *testing.T) {
	s := newServer(t)
	x := s.client()
	c := s.accept()
	tell(t, c, "quit")
	wait(t, x)
	p, err := FromConn(c)
	if err == nil {
		p.Close()
	}
	want(t, err, ErrUnidentified)
	want(t, err, ErrGone)
}

func TestGoneAndSignal(t *testing.T) {
	s := newServer(t)
	x := s.client()
	_, p := s.peer()
	select {
	case <-p.Gone():
		t.Fatal("gone while it lives")
	default:
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Gone():
	case <-time.After(patience):
		t.Fatal("death not seen")
	}
	want(t, p.Same(), ErrGone) // not reaped yet
	want(t, p.Signal(syscall.SIGTERM), ErrGone)
	wait(t, x)
	want(t, p.Same(), ErrGone)
	if ws := x.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGTERM {
		t.Errorf("ended by %v", ws.Signal())
	}
}

// A number that went to another process is not the one that we pinned.
func TestSameAfterReuse(t *testing.T) {
	s := newServer(t)
	x := s.client()
	c, dead := s.peer()
	tell(t, c, "quit")
	wait(t, x)
	s.client()
	_, living := s.peer()
	reused := &Process{handle: handle{living.handle.pid, dead.handle.f}, image: living.image}
	want(t, reused.Same(), ErrGone)
	if _, err := reused.handle.stat(); !errors.Is(err, ErrGone) {
		t.Errorf("facts of another: %v", err)
	}
	if _, err := pin(reused.handle, asKin, false); !errors.Is(err, ErrGone) {
		t.Errorf("pinned another: %v", err)
	}
}

// A process that is being killed ends; it isn't replaced by what has no memory.
func TestSameWhileEnding(t *testing.T) {
	s := newServer(t)
	for range 4 {
		x := s.client("fat")
		_, p := s.peer()
		if err := p.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		err := p.Same()
		for end := time.Now().Add(patience); err == nil && time.Now().Before(end); {
			err = p.Same()
		}
		want(t, err, ErrGone)
		wait(t, x)
	}
}

// Whoever became another user since it connected is not the connector.
func TestUIDChanged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root: needed to become another user")
	}
	s := newServer(t)
	s.client()
	c := s.accept()
	tell(t, c, "become "+otherProgram(t, "tool", ""))
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	p, err := FromConn(c)
	if err == nil {
		p.Close()
	}
	want(t, err, ErrUnidentified)
}

// After Close nothing is said for the process, and its watcher has ended.
func TestClose(t *testing.T) {
	s := newServer(t)
	s.client()
	c := s.accept()
	before := descriptors(t)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	p, err := FromConn(c)
	if err != nil {
		t.Fatal(err)
	}
	gone := p.Gone()
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := p.Same(); err == nil {
		t.Error("same after close")
	}
	if err := p.Signal(syscall.Signal(0)); err == nil {
		t.Error("signal after close")
	}
	select {
	case <-gone:
		t.Error("close looks like a death")
	default:
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, before %d", after, before)
	}
}

// descriptors counts what this process has open. What nothing holds any more is closed by the garbage collector, at any
// time: so it has its turn first, and fewer than before are an earlier test's.
func descriptors(t *testing.T) int {
	t.Helper()
	runtime.GC()
	runtime.GC()
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(e)
}

// A kernel without SO_PEERPIDFD: the handle comes late, and the identity is weak.
func TestLateHandle(t *testing.T) {
	s := newServer(t)
	x := s.client()
	c, p := s.peer()
	cred := &unix.Ucred{Pid: int32(x.Process.Pid), Uid: p.Facts().UID}
	h, late, err := peerHandle(cred, -1)
	if err != nil || !late {
		t.Fatalf("late %v, %v", late, err)
	}
	q, err := pin(h, asPeer, late)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if f := q.Facts(); f.Identity != Weak || !slices.Contains(f.Weak, WeakLateHandle) {
		t.Errorf("identity %s %q", f.Identity, f.Weak)
	}
	if q.Key() != p.Key() {
		t.Errorf("key %s, want %s", q.Key(), p.Key())
	}
	tell(t, c, "quit")
	wait(t, x)
	_, _, err = peerHandle(cred, -1)
	want(t, err, ErrGone)
}

func TestTraced(t *testing.T) {
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	s := newServer(t)
	x := s.client()
	c := s.accept()
	if err := unix.PtraceSeize(x.Process.Pid); err != nil {
		t.Skip("ptrace: ", err)
	}
	p := pinned(t, c)
	if f := p.Facts(); f.Identity != Weak || !slices.Contains(f.Weak, WeakTraced) {
		t.Errorf("identity %s %q", f.Identity, f.Weak)
	}
	if err := unix.PtraceInterrupt(x.Process.Pid); err != nil {
		t.Fatal(err)
	}
}

// I22: another pid namespace in which we see the process; another user namespace.
func TestNamespaces(t *testing.T) {
	for name, tc := range map[string]struct {
		flags    uintptr
		identity string
		weak     []string
	}{
		"pid and user": {unix.CLONE_NEWPID | unix.CLONE_NEWUSER, Contained, []string{WeakUserNS}},
		"user":         {unix.CLONE_NEWUSER, Weak, []string{WeakUserNS}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			x := exec.Command(self(t), "role:client", s.path)
			x.SysProcAttr = &syscall.SysProcAttr{Cloneflags: tc.flags}
			x.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), ContainerID: os.Geteuid(), Size: 1}}
			x.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), ContainerID: os.Getegid(), Size: 1}}
			if err := x.Start(); err != nil {
				t.Skip("namespaces: ", err)
			}
			t.Cleanup(func() { x.Process.Kill(); x.Wait() })
			_, p := s.peer()
			f := p.Facts()
			if f.Identity != tc.identity || !slices.Equal(f.Weak, tc.weak) {
				t.Errorf("identity %s %q", f.Identity, f.Weak)
			}
			if f.PID != x.Process.Pid || f.ExeDigest != digestOf(t, self(t)) {
				t.Errorf("pid %d, %s", f.PID, f.ExeDigest)
			}
			if err := p.Same(); err != nil {
				t.Error(err)
			}
		})
	}
}

// I22: a peer whose number we can't see is nobody.
func TestInvisiblePid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	x := exec.Command(self(t), "role:serve", path)
	x.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWUSER}
	x.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), ContainerID: os.Geteuid(), Size: 1}}
	x.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), ContainerID: os.Getegid(), Size: 1}}
	out, err := x.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Start(); err != nil {
		t.Skip("namespaces: ", err)
	}
	t.Cleanup(func() { x.Process.Kill(); x.Wait() })
	if _, err := io.ReadFull(out, make([]byte, len("ready"))); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	b, err := io.ReadAll(c)
	if got := string(b); err != nil || !strings.HasPrefix(got, "unidentified=true") || !strings.Contains(got, "not visible") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestSelf(t *testing.T) {
	p, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	f := p.Facts()
	if f.PID != os.Getpid() || f.ExeDigest != digestOf(t, self(t)) || !strings.Contains(p.Key(), ":") {
		t.Errorf("%+v, key %s", f, p.Key())
	}
	if err := p.Same(); err != nil {
		t.Error(err)
	}
}

// A number finds its process, also one that hides, and nobody once that is gone.
func TestFind(t *testing.T) {
	s := newServer(t)
	s.open()
	file := otherProgram(t, "tool", "find")
	x := spawn(t, file, []string{"role:client", s.path}, asUser)
	c, p := s.peer()
	q, err := Find(x.Process.Pid)
	if err != nil || q.Key() != p.Key() {
		t.Fatalf("%v", err)
	}
	q.Close()
	hidden := spawn(t, file, []string{"role:client", s.path, "hide"}, asUser)
	s.accept()
	if q, err = Find(hidden.Process.Pid); err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if f := q.Facts(); f.PID != hidden.Process.Pid || f.Identity != Weak {
		t.Errorf("pid %d, %s %q", f.PID, f.Identity, f.Weak)
	}
	tell(t, c, "quit")
	wait(t, x)
	_, err = Find(x.Process.Pid)
	want(t, err, ErrGone)
}

func TestUID(t *testing.T) {
	s := newServer(t)
	s.client()
	uid, err := UID(s.accept())
	if err != nil || uid != uint32(os.Geteuid()) {
		t.Errorf("uid %d, %v", uid, err)
	}
}
