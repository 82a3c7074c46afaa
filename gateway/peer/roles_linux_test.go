package peer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The test binary plays the other processes: started as "role:NAME ARG…" it is
// one of the roles below.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if name, ok := strings.CutPrefix(os.Args[1], "role:"); ok {
			if err := roles()[name](os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, name+":", err)
				os.Exit(3)
			}
			os.Exit(0)
		}
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // under -race every role would take a second to end
	os.Exit(m.Run())
}

// roles are what "role:NAME" runs.
func roles() map[string]func(args []string) error {
	return map[string]func([]string) error{
		"client":  client,
		"speak":   speak,
		"receive": receive,
		"start":   start,
		"leave":   leave,
		"hold":    hold,
		"leave-alone": func(args []string) error {
			x := exec.Command(args[0], args[1:]...)
			x.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			return x.Start()
		},
		"load":     load,
		"serve":    serveOne,
		"feed":     feed,
		"fed":      fed,
		"fed-late": fedLate,
		"lend":     lend,
		"idle":     idle,
	}
}

// client PATH [PRE…]: does PRE, connects, then obeys the commands that the
// server sends down the connection, one a line.
func client(args []string) error {
	for _, pre := range args[1:] {
		switch pre {
		case "hide":
			if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
				return err
			}
		case "fat": // takes a while to end
			if _, err := unix.Mmap(-1, 0, 64<<20, unix.PROT_READ|unix.PROT_WRITE,
				unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE); err != nil {
				return err
			}
		case "name":
			if err := os.WriteFile("/proc/self/comm", []byte(") R 1 (\n2 3"), 0); err != nil {
				return err
			}
		}
	}
	nc, err := net.Dial("unix", args[0])
	if err != nil {
		return err
	}
	c := nc.(*net.UnixConn)
	for _, pre := range args[1:] {
		switch pre {
		case "early":
			_, err = c.Write([]byte("hello"))
		case "early-child":
			err = child(c, "speak", "3")
		}
		if err != nil {
			return err
		}
	}
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := obey(c, strings.Fields(line)); err != nil {
			return err
		}
	}
}

func obey(c *net.UnixConn, cmd []string) error {
	switch cmd[0] {
	case "say":
		_, err := c.Write([]byte("hello"))
		return err
	case "quit":
		os.Exit(0)
	case "say-quit":
		c.Write([]byte("hello"))
		os.Exit(0)
	case "become": // FILE: the same as another user
		if err := errors.Join(syscall.Setgid(1000), syscall.Setuid(1000)); err != nil {
			return err
		}
		fallthrough
	case "exec": // FILE: become it, and let it speak on the socket
		f, err := c.File()
		if err != nil {
			return err
		}
		fd, err := unix.Dup(int(f.Fd())) // without close-on-exec
		if err != nil {
			return err
		}
		return unix.Exec(cmd[1], []string{os.Args[0], "role:speak", strconv.Itoa(fd)}, os.Environ())
	case "child":
		return child(c, "speak", "3")
	case "orphan": // leave a child that speaks after our end
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		f, err := c.File()
		if err != nil {
			return err
		}
		x := exec.Command("/proc/self/exe", "role:speak", "3", "4")
		x.ExtraFiles = []*os.File{f, r}
		if err := x.Start(); err != nil {
			return err
		}
		_ = w // open until the end of this process
		os.Exit(0)
	case "pass": // hand the socket to another process
		return pass(c)
	case "send-fd":
		_, _, err := c.WriteMsgUnix([]byte("hello"), unix.UnixRights(0), nil)
		return err
	case "again":
		_, err := net.Dial("unix", cmd[1])
		return err
	}
	return fmt.Errorf("no such command %q", cmd)
}

func child(c *net.UnixConn, role string, args ...string) error {
	f, err := c.File()
	if err != nil {
		return err
	}
	defer f.Close()
	x := exec.Command("/proc/self/exe", append([]string{"role:" + role}, args...)...)
	x.ExtraFiles = []*os.File{f}
	x.Stderr = os.Stderr
	return x.Run()
}

func pass(c *net.UnixConn) error {
	f, err := c.File()
	if err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	x := exec.Command("/proc/self/exe", "role:receive", "3")
	x.ExtraFiles = []*os.File{os.NewFile(uintptr(pair[1]), "pair")}
	x.Stderr = os.Stderr
	if err := x.Start(); err != nil {
		return err
	}
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(int(f.Fd())), nil, 0); err != nil {
		return err
	}
	return x.Wait()
}

// speak FD [PIPE]: waits for the end of PIPE, then writes to FD.
func speak(args []string) error {
	var fd [2]int
	for i, a := range args {
		n, err := strconv.Atoi(a)
		if err != nil {
			return err
		}
		fd[i] = n
	}
	if len(args) == 2 {
		io.Copy(io.Discard, os.NewFile(uintptr(fd[1]), "pipe"))
	}
	f := os.NewFile(uintptr(fd[0]), "conn")
	if _, err := f.Write([]byte("hello")); err != nil {
		return err
	}
	io.Copy(io.Discard, f) // stay until the server has seen enough
	return nil
}

// receive FD: takes a socket from FD and speaks on it.
func receive(args []string) error {
	oob := make([]byte, 128)
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
	return speak([]string{strconv.Itoa(fds[0])})
}

// start FILE ARG…: runs another program below this one, with the same stdin.
func start(args []string) error {
	x := exec.Command(args[0], args[1:]...)
	x.Stdin, x.Stdout, x.Stderr = os.Stdin, os.Stdout, os.Stderr
	return x.Run()
}

// leave FILE ARG…: starts another program and ends before it.
func leave(args []string) error {
	x := exec.Command(args[0], args[1:]...)
	x.Stdin, x.Stdout, x.Stderr = os.Stdin, os.Stdout, os.Stderr
	return x.Start()
}

// serveOne PATH: listens, and tells its first client whether it can be identified.
func serveOne(args []string) error {
	l, err := Listen(args[0])
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println("ready")
	c, err := l.AcceptUnix()
	if err != nil {
		return err
	}
	_, err = FromConn(c)
	fmt.Fprintf(c, "unidentified=%v %v", errors.Is(err, ErrUnidentified), err)
	return c.Close()
}
