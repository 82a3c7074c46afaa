package main_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"sallyport/cmd/internal/drill"
	"sallyport/gateway/peer"
)

const emptyProgram = `package main

import "os"

func main() {
	var b [512]byte
	n, _ := os.Stdin.Read(b[:])
	os.Stdout.Write(b[:n])
}
`

// BenchmarkP14Start: from the start of `sp mcp` to its first tools/list, against a Go program that does nothing but answer
// a line; in turn, and the medians of all turns.
func BenchmarkP14Start(b *testing.B) {
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(emptyProgram), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, argv := range [][]string{{"build", "-o", filepath.Join(dir, "empty"), filepath.Join(dir, "main.go")}, {"build", "-buildvcs=false", "-o", filepath.Join(dir, "sp"), "sallyport/cmd/sp"}} {
		cmd := exec.Command("go", argv...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
	start := func(lines int, say string, argv ...string) time.Duration {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = []string{"SALLYPORT_HOME=" + dir, "PATH=" + os.Getenv("PATH")}
		in, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		io.WriteString(in, say)
		r := bufio.NewReader(out)
		for range lines {
			if _, err := r.ReadBytes('\n'); err != nil {
				b.Fatal(err)
			}
		}
		took := time.Since(began)
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
		return took
	}
	var ours, theirs []time.Duration
	for b.Loop() {
		theirs = append(theirs, start(1, "x\n", filepath.Join(dir, "empty")))
		ours = append(ours, start(2, sayInitialize+"\n"+sayInitialized+"\n"+`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`+"\n", filepath.Join(dir, "sp"), "mcp"))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	mine, empty := ours[len(ours)/2], theirs[len(theirs)/2]
	b.ReportMetric(float64(mine)/float64(empty), "ratio")
	b.ReportMetric(float64(mine.Microseconds()), "shim-µs")
	b.ReportMetric(float64(empty.Microseconds()), "empty-µs")
}

// BenchmarkP15Idle: the resident memory of an spd with 1000 open and idle agent connections, against 64 MiB. Each has
// asked for its session once, and then the gateway was left alone.
func BenchmarkP15Idle(b *testing.B) {
	dir := b.TempDir()
	for name, cgo := range map[string]string{"sp": "CGO_ENABLED=0", "spd": "CGO_ENABLED=1"} {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, name), "sallyport/cmd/"+name)
		cmd.Env = append(os.Environ(), cgo)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
	s, err := drill.NewStage(b.Context(), drill.Options{SP: filepath.Join(dir, "sp"), SPD: filepath.Join(dir, "spd"), Log: b.Output()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	// A fresh one: what init and unlock take for the passphrase is no part of an idle gateway's.
	if err := s.Crash(); err != nil {
		b.Fatal(err)
	}
	if err := s.Wake(b.Context()); err != nil {
		b.Fatal(err)
	}
	var pid int
	for b.Loop() {
		var open []net.Conn
		for range 1000 {
			c, err := net.Dial("unix", s.Home.AgentSocket())
			if err != nil {
				b.Fatal(err)
			}
			open = append(open, c)
			fmt.Fprintln(c, `{"id":"1","method":"session"}`)
			if _, err := bufio.NewReader(c).ReadBytes('\n'); err != nil {
				b.Fatal(err)
			}
		}
		if pid == 0 {
			l, err := peer.ListenerOf(open[0].(*net.UnixConn))
			if err != nil {
				b.Fatal(err)
			}
			pid = l.PID()
			l.Close()
		}
		time.Sleep(20 * time.Second) // by then it has seen that it is idle
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			b.Fatal(err)
		}
		kib, err := strconv.Atoi(string(bytes.TrimSpace(regexp.MustCompile(`VmRSS:\s+(\d+)`).FindSubmatch(status)[1])))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(kib)/(64<<10), "ratio")
		b.ReportMetric(float64(kib)/1024, "MiB")
		for _, c := range open {
			c.Close()
		}
	}
}
