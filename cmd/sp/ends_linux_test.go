package main

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// endsOnce has `sp mcp` read an end of its input that is said once, as a terminal's is: an empty packet. It is there before
// the program is, and so is read before main, which must not wait for another.
func endsOnce(t *testing.T, exe string) {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	in := os.NewFile(uintptr(ends[1]), "in")
	defer in.Close()
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
	for _, packet := range []string{ping, ""} {
		if err := unix.Send(ends[0], []byte(packet), 0); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	mcp := exec.CommandContext(ctx, exe, "mcp")
	mcp.Env, mcp.Stdin = []string{"SALLYPORT_HOME=" + t.TempDir()}, in
	if out, err := mcp.Output(); err != nil || string(out) != `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n" {
		t.Errorf("an end that is said once: %q, %v", out, err)
	}
}
