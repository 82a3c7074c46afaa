package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"sallyport/gateway/api"
)

// On a terminal each listing fits its width, and its ids are still taken; elsewhere every cell is whole.
func TestTablesFit(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	w.env.outTTY, w.env.width = true, func() int { return 80 }
	for args, says := range map[string][]string{
		"approvals":          {"ap_000001", "ACTION", "in 1m33s", "…"},
		"run ls":             {"run_000001", "claude --resume", "06:00:00Z"},
		"run revoke " + run1: {"act_000002", "not_sent", "06:00:00Z", "run_000001"},
		"action ls":          {"act_000001", "confirmed", "06:00:00Z", "run_000001"},
		"secret ls":          {"github", "…"},
		"host ls":            {"web", "…"},
		"grant ls":           {"gr_1", "3 uses", "ep_000001"},
		"audit witness ls":   {"https://witness.example", "…"},
	} {
		out, _ := w.want(0, "", strings.Fields(args)...)
		contains(t, args, out, says...)
		for l := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(l, "\n")); n > 80 {
				t.Errorf("sp %s: %d characters: %s", args, n, l)
			}
		}
	}
	w.env.width = func() int { return 400 }
	out, _ := w.want(0, "", "action", "ls")
	contains(t, "wide", out, act1, run1, "2031-04-05 06:00:00Z")
	w.env.width = func() int { return 20 } // no way to fit: nothing is lost but what may be clipped
	out, _ = w.want(0, "", "run", "ls")
	contains(t, "narrow", out, "run_000001", "active", "4711", "strong", "claude …")
	w.env.outTTY, w.env.width = false, func() int { return 0 }
	out, _ = w.want(0, "", "approvals")
	contains(t, "no terminal", out, ap1, "GET https://api.github.com/repos/o/r")
}

// What a listing or a log prints of an id is enough to name it.
func TestIDsAsPrinted(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	for args, path := range map[string]string{
		"run show run_000001":    api.PathRunShow,
		"run revoke 000001":      api.PathRunRevoke,
		"run revoke run_01JV":    api.PathRunRevoke,
		"action show act_000002": api.PathActionShow,
		"action resolve act_000002 --happened --passphrase-fd 3": api.PathActionResolve,
		"deny ap_000002":         api.PathApprovalDeny,
		"epoch revoke ep_000001": api.PathEpochRevoke,
		"grant revoke gr_1":      api.PathGrantRevoke,
	} {
		w.fds[3] = "pass"
		w.want(0, "", strings.Fields(args)...)
		var id struct {
			ID         string `json:"id"`
			Resolution string `json:"resolution"`
		}
		w.last(path, &id)
		if path != api.PathGrantRevoke && len(id.ID[strings.IndexByte(id.ID, '_')+1:]) != ulidLength {
			t.Errorf("sp %s asked for %s", args, id.ID)
		}
	}
	for _, args := range []string{"run show run_00001", "run show run_999999", "epoch revoke ep_999999", "grant revoke gr_999999", "action show act_00002x"} {
		before := w.count()
		_, errs := w.want(1, "", strings.Fields(args)...)
		contains(t, args, errs, "not_found: nothing here has the id")
		if w.count() != before+1 {
			t.Errorf("sp %s: more was asked than the listing", args)
		}
	}
}

func TestShortStamp(t *testing.T) {
	for in, want := range map[string]string{
		"2031-04-05 06:00:00Z": "06:00:00Z", "2031-04-04 23:59:59Z": "2031-04-04", "-": "-", "": "",
	} {
		if got := shortStamp(in, now); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
