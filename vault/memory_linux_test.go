package vault

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// flags are the VmFlags of the mapping that holds b.
func flags(t *testing.T, b []byte) string {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip("/proc/self/smaps: ", err)
	}
	at := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	inside := false
	for line := range strings.Lines(string(smaps)) {
		var from, to uint64
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from <= at && at < to
		}
		if f, ok := strings.CutPrefix(line, "VmFlags:"); ok && inside {
			return f
		}
	}
	t.Skip("VmFlags: this kernel does not tell")
	return ""
}

func TestMemoryLocked(t *testing.T) {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lim); err != nil {
		t.Fatal(err)
	}
	p := newPages(1)
	b := p.b
	during := flags(t, b)
	if !strings.Contains(during, " dd") {
		t.Errorf("not kept out of dumps: %s", during)
	}
	if lim.Cur >= 1<<20 && !strings.Contains(during, " lo") {
		t.Errorf("not locked: %s", during)
	}
	p.wipe()
	if after := flags(t, b); strings.Contains(after, " lo") || strings.Contains(after, " dd") {
		t.Errorf("not given back: %s", after)
	}
}
