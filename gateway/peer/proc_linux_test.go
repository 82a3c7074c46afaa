package peer

import (
	"fmt"
	"strings"
	"testing"
)

const afterComm = "S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 11 0 12345 1 2 18446744073709551615"

func FuzzParseStat(f *testing.F) {
	for _, comm := range []string{"sp", "", ") R 1 (", ")", "(", "a\nb", ") S 1 1 1 (x) ", "\x00\xff"} {
		f.Add(comm)
	}
	f.Fuzz(func(t *testing.T, comm string) {
		got, err := parseStat(fmt.Appendf(nil, "42 (%s) %s\n", comm, afterComm))
		if err != nil {
			t.Fatal(err)
		}
		if want := (stat{comm, 'S', 7, 8, 9, -1, 0, 11, 12345}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestParseStatRefuses(t *testing.T) {
	for _, s := range []string{"", "42", "42 (sp", "42 sp) S 1", ")(", "42 (sp) S 7 8 9",
		"42 (sp) " + strings.Replace(afterComm, "7", "x", 1),
		"42 (sp) " + strings.Replace(afterComm, "7", "-7", 1),
		"42 (sp) " + strings.Replace(afterComm, "12345", "-1", 1)} {
		if got, err := parseStat([]byte(s)); err == nil {
			t.Errorf("%q: %+v", s, got)
		}
	}
}

func TestParseStatus(t *testing.T) {
	const good = "Name:\tTracerPid:\\n9\nTracerPid:\t12\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nVmLck:\t       8 kB\n"
	got, err := parseStatus([]byte(good))
	if want := (status{12, 1, 2, true}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, s := range []string{"", "Name:\tsp\n", "TracerPid:\t1\n", "Uid:\t1\t2\t3\t4\n",
		strings.Replace(good, "12", "x", 1), strings.Replace(good, "Uid:\t1\t2", "Uid:\t1\t4294967296", 1)} {
		if got, err := parseStatus([]byte(s)); err == nil {
			t.Errorf("%q: %+v", s, got)
		}
	}
}
