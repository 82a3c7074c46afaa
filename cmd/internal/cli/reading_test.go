package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
)

func TestSessionsAndActivity(t *testing.T) {
	w := newWorld(t)
	b := newBook(t, w.dir, "sallyport/test")
	b.close()
	reader, recovery := w.file("reader", "# a comment\n"+b.reader+"\n"), w.file("recovery", b.recovery)
	pub := w.file("audit.pub", b.pub())
	json := func(args ...string) []string {
		t.Helper()
		out, _ := w.want(0, "", append(args, "--pub", pub, "--json")...)
		var types []string
		for l := range strings.Lines(out) {
			v := verdictOf(t, l)
			types = append(types, v["type"].(string))
			if v["seq"] == nil || v["time"] == nil {
				t.Errorf("no place in %s", l)
			}
		}
		return types
	}
	check := func(what string, got []string, want ...string) {
		t.Helper()
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("sessions", json("audit", "sessions", "--identity", reader), "vault_created", "run_opened", "run_opened")
	check("activity", json("audit", "activity", "--identity", reader), "tool_called", "tool_finished", "tool_called")
	check("by the recovery identity", json("audit", "activity", "--identity", recovery), "tool_called", "tool_finished", "tool_called")
	check("one run", json("audit", "sessions", "--identity", reader, "--run", run1), "run_opened")
	check("one run, short", json("audit", "activity", "--identity", reader, "--run", strings.TrimPrefix(run1, "run_")), "tool_called", "tool_finished", "tool_called")
	check("since", json("audit", "activity", "--identity", reader, "--since", "2031-04-05T06:30:00Z"), "tool_called")
	check("since a span", json("audit", "activity", "--identity", reader, "--since", "1h"), "tool_called", "tool_finished", "tool_called")

	// Twice, and from a copy: the same bytes (A16). On stdin as well.
	first, _ := w.want(0, "", "audit", "sessions", "--identity", reader, "--pub", pub)
	again, _ := w.want(0, b.reader+"\n", "audit", "sessions", b.copyTo("copy"), "--identity", "-", "--pub", pub)
	if first != again || !strings.Contains(first, "run_opened") && !strings.Contains(first, "opened") {
		t.Errorf("first\n%s\nagain\n%s", first, again)
	}
	if strings.ContainsFunc(first, func(r rune) bool { return r != '\n' && unsafe(r) }) {
		t.Errorf("what an agent wrote reaches the terminal raw: %q", first)
	}
}

// A run is named as the logs print it, too; one that the log does not know is no empty success.
func TestReadingOneRun(t *testing.T) {
	w := newWorld(t)
	b := newBook(t, w.dir, "sallyport/test")
	const run2 = "run_01JV00000000000000000ABCDE"
	b.add(auditlog.Note, event.RunOpened{Run: run2})
	b.close()
	args := func(log, run string, more ...string) []string {
		return append([]string{"audit", log, "--identity", w.file("reader", b.reader), "--pub", w.file("audit.pub", b.pub()), "--run", run}, more...)
	}
	whole, _ := w.want(0, "", args("sessions", run2)...)
	contains(t, "sessions", whole, run2)
	lacks(t, "sessions", whole, run1)
	for _, typed := range []string{"run_0ABCDE", "0ABCDE", "00abcde", "01JV00000000000000000A", "run_01jv00000000000000000a"} {
		if out, _ := w.want(0, "", args("sessions", typed)...); out != whole {
			t.Errorf("--run %s: %q, want %q", typed, out, whole)
		}
	}
	for typed, says := range map[string]string{"run_ZZZZZZ": "this log knows no run run_ZZZZZZ", "ABCDE": "knows no run ABCDE", "run_": "knows no run run_"} {
		out, errs := w.want(1, "", args("sessions", typed)...)
		contains(t, "stderr", errs, says, "next: `sp audit sessions` without --run")
		if out != "" {
			t.Errorf("stdout %q", out)
		}
	}
	_, errs := w.want(2, "", args("activity", "01JV")...)
	contains(t, "stderr", errs, "could be any of "+run1)
	// A run that did nothing here is known all the same.
	out, errs := w.want(0, "", args("activity", run2)...)
	contains(t, "stderr", errs, "nothing here that --run and --since leave")
	if out != "" {
		t.Errorf("stdout %q", out)
	}
}

func TestReadingRefused(t *testing.T) {
	w := newWorld(t)
	b := newBook(t, w.dir, "sallyport/test")
	b.close()
	pub := w.file("audit.pub", b.pub())
	reader := w.file("reader", b.reader)
	other := newBook(t, filepath.Join(filepath.Dir(w.dir), "other"), "x")

	_, errs := w.want(1, "", "audit", "sessions", "--identity", w.file("stranger", other.reader), "--pub", pub)
	lacks(t, "stderr", errs, "AGE-SECRET")
	_, errs = w.want(1, "", "audit", "sessions", "--identity", w.file("broken", b.reader[:40]), "--pub", pub)
	lacks(t, "stderr", errs, "AGE-SECRET", b.reader[10:30])
	w.want(2, "", "audit", "sessions", "--identity", "/none", "--pub", pub)

	// Nobody vouches for the key: readable, and said.
	_, errs = w.want(0, "", "audit", "sessions", "--identity", reader)
	contains(t, "stderr", errs, "nothing from outside vouches")

	// A fault ends the reading, after what came before it, and is no quiet end.
	dir := b.copyTo("flipped")
	change(t, dir, "audit/00000002.seg", flip(700))
	out, errs := w.want(1, "", "audit", "sessions", dir, "--identity", reader, "--pub", pub)
	contains(t, "stdout", out, "vlt_1")
	contains(t, "stderr", errs, "00000002.seg")
	os.RemoveAll(filepath.Join(dir, "audit"))
	w.want(1, "", "audit", "sessions", dir, "--identity", reader, "--pub", pub)
}
