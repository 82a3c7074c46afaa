package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

func TestShowRecord(t *testing.T) {
	w := newWorld(t)
	b := newTale(t, w.dir)
	b.breach()
	b.close()
	pub, reader := w.file("audit.pub", b.pub()), w.file("reader", b.reader)
	out, errs := w.want(0, "", "audit", "show", "5", "--identity", reader, "--pub", pub)
	v := verdictOf(t, out)
	if e := v["event"].(map[string]any); v["seq"] != 5.0 || v["kind"] != "intent" || v["subject"] != strings.TrimPrefix(act1, "act_") || e["type"] != "tool_called" || e["target"] != hostile {
		t.Errorf("record %s", out)
	}
	if errs != "" || strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && unsafe(r) }) || !strings.Contains(out, "\n  \"time\": ") {
		t.Errorf("stdout %q, stderr %q", out, errs)
	}
	out, _ = w.want(0, b.reader, "audit", "show", "1", b.copyTo("copy"), "--identity", "-", "--pub", pub)
	long := strings.Repeat("# a comment\n", fileLimit/12+1) + b.reader
	if _, errs := w.want(2, long, "audit", "show", "1", b.copyTo("long"), "--identity", "-", "--pub", pub); !strings.Contains(errs, "stdin holds more than") {
		t.Errorf("an identity past the limit: %s", errs)
	}
	contains(t, "the first of a copy", out, `"gateway_started"`, `"kind": "note"`)
	lacks(t, "the first of a copy", out, "subject")
	_, errs = w.want(1, "", "audit", "show", "7", "--identity", reader, "--pub", pub)
	contains(t, "past the end", errs, "show record 7: the log ends with record 6")
	_, errs = w.want(0, "", "audit", "show", "1", "--identity", reader)
	contains(t, "unpinned", errs, "nothing from outside vouches")
}

// lines are an export's records; end is its last line's checkpoint.
func exported(t *testing.T, out string) (seq []float64, end map[string]any) {
	t.Helper()
	all := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for i, l := range all {
		v := verdictOf(t, l)
		if c, ok := v["checkpoint"]; ok {
			if i != len(all)-1 || len(v) != 1 {
				t.Errorf("line %d: %s", i+1, l)
			}
			end, _ = c.(map[string]any)
			return seq, end
		}
		if v["type"] == "" || v["time"] == "" {
			t.Errorf("line %d: %s", i+1, l)
		}
		seq = append(seq, v["seq"].(float64))
	}
	t.Errorf("no checkpoint line in %s", out)
	return seq, nil
}

// An export is all that its checkpoint covers, and ends with it.
func TestExport(t *testing.T) {
	w := newWorld(t)
	b := newTale(t, w.dir)
	note := b.checkpoint()
	b.breach()
	latest := b.checkpoint()
	w.operator(answers{api.PathCheckpoint: api.Checkpoint{Note: latest}})
	pub, reader := w.file("audit.pub", b.pub()), w.file("reader", b.reader)
	args := []string{"--identity", reader, "--pub", pub}

	// The user's own log: the gateway's checkpoint, with both kinds of record.
	out, errs := w.want(0, "", append([]string{"audit", "export"}, args...)...)
	seq, end := exported(t, out)
	if len(seq) != 6 || seq[0] != 1 || seq[5] != 6 || end["note"] != latest || end["seq"] != 6.0 || errs != "" {
		t.Errorf("%v, %v, %q", seq, end, errs)
	}
	contains(t, "lines", out, `"type":"run_revoked"`, `"type":"tool_called"`, `"type":"tool_finished"`)
	lacks(t, "lines", out, "\x1b", "\u202e")

	// One from a file covers less, and no record that it doesn't cover is in the export.
	out, errs = w.want(0, "", append([]string{"audit", "export", "--format", "jsonl", "--checkpoint", w.file("note", note)}, args...)...)
	if seq, end := exported(t, out); len(seq) != 4 || end["note"] != note {
		t.Errorf("%v, %v", seq, end)
	}
	contains(t, "stderr", errs, "ends with record 4")

	// The note holds the log, by itself: what was exported can be compared with what is there later.
	_, end = exported(t, out)
	w.want(0, "", "audit", "verify", "--pub", pub, "--against", w.file("kept", end["note"].(string)))

	// A copy without one is exported whole, and says so.
	copied := b.copyTo("copy")
	asked := w.count()
	out, errs = w.want(0, "", append([]string{"audit", "export", copied}, args...)...)
	if seq, end := exported(t, out); len(seq) != 6 || end != nil || !strings.HasSuffix(out, "{\"checkpoint\":null}\n") {
		t.Errorf("%v, %v", seq, end)
	}
	contains(t, "stderr", errs, "carries no checkpoint")
	if w.count() != asked {
		t.Error("the gateway was asked about a copied log")
	}
}

func TestExportRefused(t *testing.T) {
	w := newWorld(t)
	b := newTale(t, w.dir)
	b.breach()
	note := w.file("note", b.checkpoint())
	b.reopen()
	b.add(auditlog.Note, event.GatewayStarted{Version: "v1", ProcessID: 8})
	b.close()
	pub, reader := w.file("audit.pub", b.pub()), w.file("reader", b.reader)
	args := []string{"--identity", reader, "--pub", pub}

	// No gateway: whole, without one. The vault locked: likewise.
	out, errs := w.want(0, "", append([]string{"audit", "export"}, args...)...)
	if seq, end := exported(t, out); len(seq) != 7 || end != nil {
		t.Errorf("%v, %v", seq, end)
	}
	contains(t, "stderr", errs, "carries no checkpoint: no gateway answers", "sp up")
	w.operator(answers{api.PathCheckpoint: api.Fail("vault_locked", "")})
	_, errs = w.want(0, "", append([]string{"audit", "export"}, args...)...)
	contains(t, "stderr", errs, "carries no checkpoint: the vault is locked", "sp unlock")

	// A log that does not go as far as its checkpoint is no export's.
	cut := b.copyTo("cut")
	if err := os.Truncate(filepath.Join(cut, "audit", "00000001.seg"), 3000); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(cut, "audit", "00000002.seg")); err != nil {
		t.Fatal(err)
	}
	out, errs = w.want(1, "", append([]string{"audit", "export", cut, "--checkpoint", note}, args...)...)
	contains(t, "stderr", errs, "it is truncated")
	if out != "" {
		t.Errorf("stdout %q", out)
	}
	// Nor is another's checkpoint one of this log.
	other := newTale(t, filepath.Join(filepath.Dir(w.dir), "other"))
	_, errs = w.want(2, "", append([]string{"audit", "export", "--checkpoint", w.file("theirs", other.checkpoint())}, args...)...)
	contains(t, "stderr", errs, "the checkpoint is none of this log")

	// A fault ends the lines: without the last one it is no whole export.
	spoilt := b.copyTo("spoilt")
	change(t, spoilt, "audit/00000002.seg", flip(700))
	out, _ = w.want(1, "", append([]string{"audit", "export", spoilt}, args...)...)
	lacks(t, "stdout", out, "checkpoint")
	contains(t, "stdout", out, `"type":"run_revoked"`)
}
