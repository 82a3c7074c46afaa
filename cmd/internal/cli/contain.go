package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

func (a *app) runContain() *cobra.Command {
	var (
		pids   []int
		kill   bool
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "contain RUN",
		Short: "Contain a run and what lives on of it, in the safe order",
		Long: `Contain a run, in the safe order, each step a record of the log: take a snapshot of its
processes, review its last attempted action and all since the client was gone, revoke its
authority, list what goes on far away, prove that it is refused. That signals nothing and
needs no proof.

The processes named by --pid, or confirmed at the terminal, then get SIGTERM, each alone
and never its group; after two seconds a second snapshot says what became of each. Those
that are left get SIGKILL only with --kill: it leaves them no time to clean up.`,
		Args: exactly("RUN"),
	}
	ask := a.asker(cmd)
	f := cmd.Flags()
	f.IntSliceVar(&pids, "pid", nil, "end this process of the run; may be given again")
	f.BoolVar(&kill, "kill", false, "then SIGKILL what SIGTERM did not end")
	f.BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		if kill && len(pids) == 0 && !a.inTTY {
			return usage("--kill needs --pid: it ends only processes that were named")
		}
		if err := ask.early(); err != nil {
			return err
		}
		id, err := a.runID(cmd.Context(), words[0])
		if err != nil {
			return err
		}
		var c api.Contained
		if err := a.do(cmd.Context(), api.PathRunContain, nil, api.IDArgs{ID: id}, nil, &c); err != nil {
			return err
		}
		if !asJSON {
			if err := a.showContained(c); err != nil {
				return err
			}
		}
		if len(pids) == 0 && a.inTTY {
			if pids, err = a.confirmPids(c); err != nil {
				return err
			}
		}
		if len(pids) > 0 {
			if c, err = a.terminate(cmd.Context(), ask, c, pids, kill); err != nil {
				return err
			}
			if !asJSON {
				if err := a.showContained(c); err != nil {
					return err
				}
			}
		}
		if asJSON {
			if err := a.document(c); err != nil {
				return err
			}
		}
		if c.Verdict != api.VerdictContained {
			return exitError(exitFailed)
		}
		return nil
	}
	return cmd
}

// terminate ends the processes that pids name among those that were shown.
func (a *app) terminate(ctx context.Context, ask *asker, c api.Contained, pids []int, kill bool) (api.Contained, error) {
	args := api.TerminateArgs{ID: c.Run.ID, Kill: kill}
	for _, pid := range pids {
		i := slices.IndexFunc(c.Processes, func(p api.Survivor) bool { return p.ProcessID == pid && p.State != "exited" })
		if i < 0 {
			return c, &adviceError{fmt.Errorf("pid %d is no living process of %s that was seen; nothing was signalled", pid, c.Run.ID),
				"name processes of the list above"}
		}
		args.Processes = append(args.Processes, c.Processes[i].ProcessRef)
	}
	proof, err := ask.proof(ctx)
	if err != nil {
		return c, err
	}
	var after api.Contained
	if err := a.do(ctx, api.PathRunTerminate, proof, args, nil, &after); err != nil {
		return c, err
	}
	// One walk, told as one: what came before the signals is not told again by the gateway.
	after.Steps = append(c.Steps, after.Steps...)
	after.Last, after.Uncertain, after.Left, after.Remote = c.Last, c.Uncertain, c.Left, c.Remote
	return after, nil
}

// confirmPids asks at the terminal which processes are to end.
func (a *app) confirmPids(c api.Contained) (pids []int, err error) {
	if !slices.ContainsFunc(c.Processes, func(p api.Survivor) bool { return p.State != "exited" }) {
		return nil, nil
	}
	tty, err := a.tty()
	if err != nil {
		return nil, nil // nobody to ask: nothing is signalled
	}
	defer tty.Close()
	line, err := askLine(tty, "end which of these processes by SIGTERM? (pids; nothing ends none) ")
	if err != nil {
		return nil, err
	}
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == ',' }) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, usage("%q is no pid; nothing was signalled", word)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// askLine reads one line, shown as it is typed.
func askLine(tty *os.File, question string) (string, error) {
	fmt.Fprint(tty, question)
	line, err := bufio.NewReader(tty).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read terminal: %w", err)
	}
	return strings.TrimSpace(line), nil
}

func (a *app) showContained(c api.Contained) error {
	fmt.Fprintf(a.out, "%s is %s\n", escape(c.Run.ID), escape(c.Run.State))
	for _, s := range stepLines(c.Steps) {
		fmt.Fprintln(a.out, "  "+escape(s))
	}
	last := ""
	if c.Last != nil {
		for _, x := range slices.Concat(c.Uncertain, c.Left, c.Remote) { // looked at before the revocation; these are as they ended
			if x.ID == c.Last.ID {
				c.Last = &x
			}
		}
		last = strings.Join(slices.DeleteFunc(actionRow(*c.Last)[:6], func(s string) bool { return s == "" }), " ") + ", started " + stamp(c.Last.StartedAt)
	}
	facts(a.out, "", "last attempted", last, "client gone", stamp(c.Run.ClientUnavailableAt), "client silent", since(c.Run.UnresponsiveSince),
		"revoked", stamp(c.Run.RevokedAt),
		"denial", denialWords(c.Denial))
	for _, part := range []struct {
		what string
		list []api.Action
	}{{"calls in the uncertain window", c.Uncertain}, {"had left when the gate closed", c.Left}, {"not finished far away", c.Remote}} {
		if len(part.list) == 0 {
			continue
		}
		fmt.Fprintf(a.out, "%s (%d):\n", part.what, len(part.list))
		if err := show(a, part.list, false, actionColumns, actionRow); err != nil {
			return err
		}
	}
	if len(c.Processes) > 0 {
		fmt.Fprintf(a.out, "processes of the run (%d):\n", len(c.Processes))
		if err := show(a, c.Processes, false, survivorColumns, survivorRow); err != nil {
			return err
		}
	}
	for _, p := range c.Processes {
		pid := strconv.Itoa(p.ProcessID)
		facts(a.out, "  ", "pid "+pid, p.Detail, "pid "+pid+" can reach", strings.Join(p.Authority, ", "),
			"pid "+pid+" has strangers in its group", strings.Trim(fmt.Sprint(p.Strangers), "[]"))
	}
	for _, r := range c.Rotate {
		fmt.Fprintf(a.out, "to rotate: %s\n", escape(r))
	}
	for _, m := range c.Missing {
		fmt.Fprintf(a.out, "missing: %s\n", escape(m))
	}
	colour := green
	if c.Verdict != api.VerdictContained {
		colour = red
	}
	fmt.Fprintln(a.out, a.paint(colour, "verdict: "+strings.ReplaceAll(escape(c.Verdict), "_", " ")))
	return nil
}

func denialWords(d api.Denial) string {
	switch {
	case d.Method == "":
		return ""
	case d.Record != 0:
		return fmt.Sprintf("%s (%s, record %d)", d.Reason, d.Method, d.Record)
	}
	return fmt.Sprintf("%s (%s)", d.Reason, d.Method)
}

var survivorColumns = []column{{"PID", fixed}, {"ROLE", fixed}, {"STATE", fixed}, {"STAT", fixed}, {"PPID", fixed}, {"PGID", fixed}, {"COMMAND", words}}

func survivorRow(p api.Survivor) []string {
	state := p.State
	if p.Forced {
		state += " (forced: its clean-up may be incomplete)"
	}
	return []string{strconv.Itoa(p.ProcessID), p.Role, state, p.Stat, strconv.Itoa(p.PPID), strconv.Itoa(p.PGID), p.Command}
}

// stepLines names the records of a walk; several of a kind in a row are one line.
func stepLines(steps []jsontext.Value) (out []string) {
	type step struct {
		Seq  uint64         `json:"seq"`
		Type string         `json:"type"`
		X    jsontext.Value `json:",unknown"`
	}
	var first, last step
	n := 0
	flush := func() {
		switch {
		case n == 1:
			out = append(out, fmt.Sprintf("record %d: %s", first.Seq, first.Type))
		case n > 1:
			out = append(out, fmt.Sprintf("records %d to %d: %s, %d of them", first.Seq, last.Seq, first.Type, n))
		}
	}
	for _, raw := range steps {
		var s step
		if json.Unmarshal(raw, &s) != nil {
			continue
		}
		if n > 0 && s.Type == first.Type {
			last = s
			n++
			continue
		}
		flush()
		first, last, n = s, s, 1
	}
	flush()
	return out
}
