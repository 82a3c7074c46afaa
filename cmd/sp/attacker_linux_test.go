package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"

	"sallyport/gateway/api"
)

// attackerMain is a program of the same user that wants another's authority. Each verb prints what became of each of its
// attempts, one a line: `NAME: CODE`, where the code is the answer's (`confirmed` for a call that went through), or
// `closed` when the gateway hung up without an answer.
func attackerMain(args []string) int {
	if len(args) < 1 {
		return 2
	}
	signal.Ignore(syscall.SIGPIPE)
	err := errors.New("no such attack")
	switch verb, rest := args[0], args[1:]; verb {
	case "once": // CALL
		err = attackOnce(rest[0])
	case "named": // NAME CALL
		name, e := unix.BytePtrFromString(rest[0])
		if err = e; err == nil {
			runtime.LockOSThread() // the name is the main thread's: that one shows in /proc/PID/stat
			err = errors.Join(unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)), 0, 0, 0), attackOnce(rest[1]))
		}
	case "undumpable": // CALL
		err = errors.Join(unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0), attackOnce(rest[0]))
	case "stays": // CALL TELL HEAR
		err = attackStays(rest)
	case "execs": // PROGRAM CALL
		err = attackExecs(rest[0], rest[1])
	case "after-exec": // by execs
		err = attackAfterExec(rest)
	case "lends": // child|orphan|stranger CALL
		err = attackLends(rest[0], rest[1])
	case "borrows": // by lends
		err = attackBorrows(rest)
	case "hands": // CALL: a descriptor to the gateway
		err = attackHands(rest[0])
	case "binds": // PATH TELL HEAR
		var l net.Listener
		if l, err = net.Listen("unix", rest[0]); err == nil {
			err = errors.Join(meet("tell", rest[1]), meet("hear", rest[2]), l.Close())
		}
	case "confined": // PID FOLDER
		err = attackConfined(rest[0], rest[1])
	case "pries": // PID
		err = attackPries(rest[0])
	case "floods": // N TELL HEAR
		err = attackFloods(rest)
	case "beside": // CALL: a shim of its own beside the client's
		err = attackBeside(rest[0])
	case "client": // CALL: has a child that does so
		err = attackAsClient(rest[0])
	case "detached": // PROGRAM ARG…
		err = attackDetached(rest)
	case "detaches", "lives": // by detached
		err = attackDetaches(verb, rest)
	case "adopted": // by detaches and lives
		err = attackAdopted(rest)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "attacker %s: %v\n", args[0], err)
		return 1
	}
	return 0
}

// door is one connection to the agents' door.
type door struct {
	*net.UnixConn
	in *bufio.Reader
}

func openDoor() (*door, error) {
	c, err := dialDoor()
	if err != nil {
		return nil, err
	}
	return &door{c.(*net.UnixConn), bufio.NewReader(c)}, nil
}

func callLine(args string) []byte {
	params, err := json.Marshal(api.ActionRequest{Tool: api.ToolHTTP, Args: jsontext.Value(args), WaitSeconds: 20})
	if err != nil {
		panic(err)
	}
	line, err := json.Marshal(api.Request{ID: "1", Method: api.MethodCall, Params: params})
	if err != nil {
		panic(err)
	}
	return append(line, '\n')
}

// call asks and prints the answer's code as what.
func (d *door) call(what, args string) {
	d.Write(callLine(args)) // a door that has been closed is told by what comes back
	d.SetReadDeadline(time.Now().Add(patience))
	line, err := d.in.ReadBytes('\n')
	if err != nil {
		fmt.Printf("%s: closed\n", what)
		return
	}
	var r api.Response
	switch err = json.Unmarshal(line, &r); {
	case err != nil:
		fmt.Printf("%s: %v\n", what, err)
	case r.Error != nil:
		fmt.Printf("%s: %s\n", what, r.Error.Code)
	case r.Action != nil && r.Action.Error != nil:
		fmt.Printf("%s: %s\n", what, r.Action.Error.Code)
	case r.Action != nil:
		fmt.Printf("%s: %s\n", what, strings.TrimPrefix(string(r.Action.State)+" "+r.Action.Outcome, "done "))
	default:
		fmt.Printf("%s: result\n", what)
	}
}

func attackOnce(call string) error {
	d, err := openDoor()
	if err != nil {
		return err
	}
	defer d.Close()
	d.call("once", call)
	return nil
}

func attackStays(args []string) error {
	d, err := openDoor()
	if err != nil {
		return err
	}
	d.call("before", args[0])
	if err := errors.Join(meet("tell", args[1]), meet("hear", args[2])); err != nil {
		return err
	}
	d.call("after", args[0])
	return nil
}

// attackExecs becomes program and goes on speaking: on its own connection, and through a shim that it started before.
func attackExecs(program, call string) error {
	d, err := openDoor()
	if err != nil {
		return err
	}
	d.call("direct before", call)
	toShim, wr, err := os.Pipe()
	if err != nil {
		return err
	}
	rd, fromShim, err := os.Pipe()
	if err != nil {
		return err
	}
	shim := exec.Command("sp", "call", "-")
	shim.Stdin, shim.Stdout, shim.Stderr = toShim, fromShim, os.Stderr
	if err := shim.Start(); err != nil {
		return err
	}
	toShim.Close()
	fromShim.Close()
	shimCall("shim before", wr, bufio.NewReader(rd), call)
	f, err := d.File()
	if err != nil {
		return err
	}
	argv := []string{program, "after-exec", call}
	for _, f := range []*os.File{f, wr, rd} {
		fd, err := unix.Dup(int(f.Fd())) // kept over the exec
		if err != nil {
			return err
		}
		argv = append(argv, strconv.Itoa(fd))
	}
	return unix.Exec(program, argv, os.Environ())
}

func attackAfterExec(args []string) error {
	var files [3]*os.File
	for i, a := range args[1:] {
		fd, err := strconv.Atoi(a)
		if err != nil {
			return err
		}
		files[i] = os.NewFile(uintptr(fd), a)
	}
	d, err := doorOf(files[0])
	if err != nil {
		return err
	}
	d.call("direct after", args[0])
	shimCall("shim after", files[1], bufio.NewReader(files[2]), args[0])
	return files[1].Close() // the shim ends
}

func doorOf(f *os.File) (*door, error) {
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return &door{c.(*net.UnixConn), bufio.NewReader(c)}, nil
}

// shimCall makes one call through `sp call -`.
func shimCall(what string, to io.Writer, from *bufio.Reader, call string) {
	fmt.Fprintf(to, `{"tool":"http_request","args":%s}`+"\n", call)
	line, err := from.ReadBytes('\n')
	var doc struct {
		Outcome string         `json:"outcome"`
		Error   any            `json:"error"`
		X       jsontext.Value `json:",unknown"`
	}
	if err == nil {
		err = json.Unmarshal(line, &doc)
	}
	switch {
	case err != nil:
		fmt.Printf("%s: %v\n", what, err)
	case doc.Error != nil:
		fmt.Printf("%s: %v\n", what, doc.Error)
	default:
		fmt.Printf("%s: %s\n", what, doc.Outcome)
	}
}

// attackLends lets another process speak on the connection: its child; its child after it has itself gone; or a process
// that gets the descriptor over a socket.
func attackLends(who, call string) error {
	d, err := openDoor()
	if err != nil {
		return err
	}
	d.call("own", call)
	f, err := d.File()
	if err != nil {
		return err
	}
	ready, done, err := os.Pipe()
	if err != nil {
		return err
	}
	borrower := exec.Command("attacker", "borrows", who, call)
	borrower.Stdout, borrower.Stderr = os.Stdout, os.Stderr
	borrower.ExtraFiles = []*os.File{f, ready} // 3, 4
	if who == "stranger" {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		borrower.ExtraFiles[0] = os.NewFile(uintptr(pair[0]), "pair")
		if err := unix.Sendmsg(pair[1], []byte{1}, unix.UnixRights(int(f.Fd())), nil, 0); err != nil {
			return err
		}
	}
	if err := borrower.Start(); err != nil {
		return err
	}
	if who == "orphan" { // done closes with this process: then the child speaks
		os.Exit(0)
	}
	done.Close()
	return borrower.Wait()
}

func attackBorrows(args []string) error {
	who, call := args[0], args[1]
	f := os.NewFile(3, "lent")
	if who == "stranger" {
		oob := make([]byte, unix.CmsgSpace(4))
		_, n, _, _, err := unix.Recvmsg(3, make([]byte, 1), oob, 0)
		if err != nil {
			return err
		}
		m, err := unix.ParseSocketControlMessage(oob[:n])
		if err != nil {
			return err
		}
		fds, err := unix.ParseUnixRights(&m[0])
		if err != nil {
			return err
		}
		f = os.NewFile(uintptr(fds[0]), "passed")
	}
	if _, err := os.NewFile(4, "ready").Read(make([]byte, 1)); err != io.EOF {
		return fmt.Errorf("wait for the lender: %v", err)
	}
	d, err := doorOf(f)
	if err != nil {
		return err
	}
	d.call(who, call)
	return nil
}

// attackHands sends a descriptor along with a call.
func attackHands(call string) error {
	d, err := openDoor()
	if err != nil {
		return err
	}
	if _, _, err := d.WriteMsgUnix(callLine(call), unix.UnixRights(0), nil); err != nil {
		return err
	}
	d.SetReadDeadline(time.Now().Add(patience))
	if _, err := d.in.ReadBytes('\n'); err != nil {
		fmt.Println("hands: closed")
		return nil
	}
	fmt.Println("hands: answered")
	return nil
}

// attackPries tries each way into a process that the same user may usually look into.
func attackPries(pid string) error {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	told := func(what string, err error) {
		verdict := "denied"
		if err == nil {
			verdict = "OPEN"
		} else if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
			verdict = err.Error()
		}
		fmt.Printf("%s: %s\n", what, verdict)
	}
	told("ptrace attach", unix.PtraceAttach(n))
	told("ptrace seize", unix.PtraceSeize(n))
	for _, name := range []string{"mem", "maps", "auxv", "environ", "syscall", "fd/1", "cwd/."} {
		f, err := os.Open("/proc/" + pid + "/" + name)
		if err == nil {
			f.Close()
		}
		told(name, err)
	}
	fd, err := unix.PidfdOpen(n, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for i := range 8 {
		_, err := unix.PidfdGetfd(fd, i, 0)
		told("pidfd_getfd "+strconv.Itoa(i), err)
	}
	buf := make([]byte, 8)
	at := []unix.RemoteIovec{{Base: 0x400000, Len: len(buf)}}
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	_, err = unix.ProcessVMReadv(n, local, at, 0)
	told("process_vm_readv", err)
	if os.Getenv("SALLYPORT_HOME") == "" { // another uid's
		told("signal", unix.PidfdSendSignal(fd, unix.SIGWINCH, nil, 0))
	}
	return nil
}

// attackFloods opens n connections and keeps as many as the gateway leaves it; every third says half a line. It tells
// when they are open, and counts those that are left when it is told to end.
func attackFloods(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	var open []*door
	for i := range n {
		d, err := openDoor()
		for end := time.Now().Add(patience); errors.Is(err, unix.EAGAIN) && time.Now().Before(end); d, err = openDoor() {
			runtime.Gosched() // the queue of the listener is full: the gateway is busy taking the others
		}
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		if i%3 == 0 {
			io.WriteString(d, `{"id":"1","method":"call","params":{"tool":"http`)
		}
		open = append(open, d)
	}
	if err := errors.Join(meet("tell", args[1]), meet("hear", args[2])); err != nil {
		return err
	}
	left := 0
	for _, d := range open {
		d.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := d.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			left++
		}
	}
	fmt.Printf("opened: %d\nleft: %d\n", n, left)
	return nil
}

// attackBeside starts a shim as its parent's child. It reads nothing from it: whose child it is, has its answer.
func attackBeside(call string) error {
	sp, err := exec.LookPath("sp")
	if err != nil {
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	p, err := os.StartProcess(sp, []string{"sp", "call", "--wait", "1s", "http_request", call}, &os.ProcAttr{
		Files: []*os.File{null, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Cloneflags: unix.CLONE_PARENT},
	})
	if err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(p.Pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	return err
}

// attackDetached runs a program with no run above it: in a session of its own whose leader is gone (an orphan), then in
// one whose leader lives, below a process that was adopted.
func attackDetached(argv []string) error {
	for _, how := range []string{"detaches", "lives"} {
		var out []byte
		// The gateway looks once a second at which processes are a run's: on a busy machine it may see one before it has got
		// away, and goes on knowing it. An attacker tries until it is not seen.
		for range 100 {
			var err error
			if out, err = detached(how, argv); err != nil {
				return err
			}
			if how == "detaches" || !bytes.Contains(out, []byte("descends from an agent's run")) {
				break
			}
		}
		for line := range strings.Lines(string(out)) {
			fmt.Printf("%s: %s", how, line)
		}
	}
	return nil
}

// detached returns what one that got away says, and those before it.
func detached(how string, argv []string) ([]byte, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.Command("attacker", append([]string{how}, argv...)...)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: how == "detaches"}
	err = cmd.Run()
	w.Close()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r) // until the last of them has gone
}

// attackDetaches starts what runs argv and goes: as the leader of its session, or as the parent of one.
func attackDetaches(how string, argv []string) error {
	ready, done, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command("attacker", append([]string{"adopted"}, argv...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{ready} // 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: how == "lives"}
	if err := cmd.Start(); err != nil {
		return err
	}
	runtime.KeepAlive(done) // closes with this process
	os.Exit(0)
	return nil
}

func attackAdopted(argv []string) error {
	if _, err := os.NewFile(3, "ready").Read(make([]byte, 1)); err != io.EOF {
		return fmt.Errorf("wait for the parent's end: %v", err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if pass, err := os.Open(os.Getenv("PASS")); err == nil { // it knows the passphrase
		cmd.ExtraFiles = []*os.File{pass}
	}
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return err
	}
	fmt.Printf("exit %d\n", cmd.ProcessState.ExitCode())
	return nil
}

// attackAsClient has a shim that was approved, and a child that starts one of its own beside it.
func attackAsClient(call string) error {
	shim := exec.Command("sp", "call", "-")
	shim.Stderr = os.Stderr
	to, err := shim.StdinPipe()
	if err != nil {
		return err
	}
	from, err := shim.StdoutPipe()
	if err != nil {
		return err
	}
	if err := shim.Start(); err != nil {
		return err
	}
	in := bufio.NewReader(from)
	shimCall("shim", to, in, call)
	child := exec.Command("attacker", "beside", call)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Run(); err != nil {
		return err
	}
	shimCall("shim still", to, in, call)
	return errors.Join(to.Close(), shim.Wait())
}

// attackConfined is an agent under `sp run` that goes for the gateway's files, its operators' door and its process.
func attackConfined(pid, dir string) error {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	told := func(what string, err error) {
		verdict := "denied"
		if err == nil {
			verdict = "OPEN"
		} else if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EXDEV) { // Landlock's no to a link
			verdict = err.Error()
		}
		fmt.Printf("%s: %s\n", what, verdict)
	}
	for _, name := range []string{"vault.db", "audit.pub", "operator.addr", "spd.lock"} {
		_, err := os.ReadFile(dir + "/" + name)
		told("read "+name, err)
		told("append to "+name, appendTo(dir+"/"+name))
		told("remove "+name, os.Remove(dir+"/"+name))
		told("truncate "+name, os.Truncate(dir+"/"+name, 0))
	}
	segments, err := os.ReadDir(dir + "/audit")
	if err != nil || len(segments) == 0 {
		return fmt.Errorf("the log's names: %w", err)
	}
	for _, e := range segments {
		_, err := os.ReadFile(dir + "/audit/" + e.Name())
		told("read "+e.Name(), err)
	}
	told("make a file", os.WriteFile(dir+"/planted", nil, 0o600))
	told("move the folder", os.Rename(dir, dir+"2"))
	told("link a file", os.Link(dir+"/vault.db", os.Getenv("TMPDIR")+"/v"))
	// Names of abstract sockets stand in /proc/net/unix.
	list, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return err
	}
	tried := 0
	for line := range strings.Lines(string(list)) {
		f := strings.Fields(line)
		name := f[len(f)-1]
		if !strings.HasPrefix(name, "@") || len(name) != len("@")+26 || f[3] != "00010000" { // listening, and named as the door is
			continue
		}
		c, err := net.Dial("unix", name)
		if err == nil {
			c.Close()
		}
		tried++
		if err == nil || !errors.Is(err, unix.EPERM) {
			told("connect to "+name, err)
		}
	}
	if tried == 0 {
		return errors.New("no operators' door was found to try")
	}
	runtime.LockOSThread()
	told("trace", unix.PtraceAttach(n))
	told("signal", unix.Kill(n, unix.SIGWINCH))
	told("signal the parent", unix.Kill(os.Getppid(), unix.SIGWINCH))
	// What it is for still works: a file beside, and a call.
	if err := os.WriteFile(os.Getenv("TMPDIR")+"/mine", []byte("x"), 0o600); err != nil {
		return err
	}
	cmd := exec.Command("sp", "call", "http_request", `{"target":"up","path":"/get"}`)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

func appendTo(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		f.Close()
	}
	return err
}
