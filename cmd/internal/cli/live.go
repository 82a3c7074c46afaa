package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

// Of the live view.
const (
	lookEvery  = 400 * time.Millisecond // how often the table is asked for
	clickGuard = 400 * time.Millisecond // a key does nothing to what has been on the screen for less
	askLimit   = 10 * time.Second       // for one command
)

func (a *app) live() *cobra.Command {
	return &cobra.Command{
		Use:   "watch",
		Short: "Answer cards as they come, at a live view",
		Long: `Answer cards as they come, at a live view of all that waits.

Deny has the focus; the arrows choose another answer and Enter gives it. What a yes gives
stands above it, in full. The first yes asks for the passphrase and opens a sitting: for 15 minutes this
process, and no other, answers cards without it. The sitting ends with the view, with a lock, and when the
machine sleeps. A key that was pressed before a card had been on the screen for 0.4 s does nothing to it.

  up, down       another card, or a session whose questions wait
  left, right    another answer       enter  give it       d  deny
  u r n t        this call, this run, a number of calls, a time
  page up, down  the rest of a long card
  m              mute the session     x  revoke the run    q  leave`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.watchLive(cmd.Context()) },
	}
}

func (a *app) watchLive(ctx context.Context) error {
	tty, err := a.tty()
	if err != nil {
		return &adviceError{errors.New("there is no terminal to watch at"), "`sp approvals` lists the cards, --json for programs"}
	}
	defer tty.Close()
	m := &liveModel{app: a, ctx: ctx, colour: a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"}
	if err := a.do(ctx, api.PathApprovalTable, nil, nil, nil, &m.table); err != nil {
		return err // told plainly, before the screen is taken
	}
	_, err = tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(tty), tea.WithOutput(tty)).Run()
	if id := m.sitting.ID; id != "" {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), askLimit)
		defer cancel()
		if a.do(late, api.PathSittingClose, nil, api.IDArgs{ID: id}, nil, nil) == nil {
			a.say("the sitting is over")
		}
	}
	if errors.Is(err, tea.ErrInterrupted) || ctx.Err() != nil {
		return errInterrupted
	}
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	return nil
}

// lookMsg is the table as it was just now.
type lookMsg struct {
	table api.Table
	err   error
}

// doneMsg is how one command ended.
type doneMsg struct {
	said    string
	err     error
	sitting *api.Sitting // opened
	again   *intent      // what waited for it
}

// look asks for the table; its message asks for the next one.
func (m *liveModel) look() tea.Msg {
	ctx, cancel := context.WithTimeout(m.ctx, askLimit)
	defer cancel()
	var t api.Table
	err := m.do(ctx, api.PathApprovalTable, nil, nil, nil, &t)
	return lookMsg{t, err}
}

// command runs one verb beside the view.
func (m *liveModel) command(f func(ctx context.Context) (string, error)) tea.Cmd {
	m.busy = true
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, askLimit)
		defer cancel()
		said, err := f(ctx)
		return doneMsg{said: said, err: err}
	}
}

func (m *liveModel) deny(c api.Approval) tea.Cmd {
	return m.command(func(ctx context.Context) (string, error) {
		return "denied " + shortID(c.ID), m.do(ctx, api.PathApprovalDeny, nil, api.IDArgs{ID: c.ID}, nil, nil)
	})
}

func (m *liveModel) mute(key, text string) tea.Cmd {
	return m.command(func(ctx context.Context) (string, error) {
		return "muted " + text, m.do(ctx, api.PathApprovalMute, nil, api.MuteArgs{Key: key}, nil, nil)
	})
}

func (m *liveModel) revoke(run string) tea.Cmd {
	return m.command(func(ctx context.Context) (string, error) {
		var out api.Revoked
		err := m.do(ctx, api.PathRunRevoke, nil, api.IDArgs{ID: run}, nil, &out)
		return fmt.Sprintf("revoked %s; %d calls had left", shortID(run), len(out.Left)), err
	})
}

// approve gives an answer by the sitting. One that is over is forgotten, and the passphrase asked for again.
func (m *liveModel) approve(x intent) tea.Cmd {
	m.busy = true
	proof := &api.Proof{Kind: "sitting", Value: m.sitting.ID}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, askLimit)
		defer cancel()
		var g api.Grant
		err := m.do(ctx, api.PathApprovalGrant, proof, x.args, nil, &g)
		var e *api.Error
		if errors.As(err, &e) && (e.Code == "proof_required" || e.Code == "operator_refused") {
			return doneMsg{err: err, again: &x}
		}
		return doneMsg{said: "approved " + shortID(x.args.ID) + ": " + x.gives, err: err}
	}
}

// open begins a sitting with what was typed.
func (m *liveModel) open(passphrase string, x *intent) tea.Cmd {
	m.busy = true
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, time.Minute)
		defer cancel()
		var s api.Sitting
		err := m.do(ctx, api.PathSittingOpen, &api.Proof{Kind: "passphrase", Value: passphrase}, nil, nil, &s)
		if err != nil {
			return doneMsg{err: err}
		}
		return doneMsg{sitting: &s, again: x}
	}
}

// inLine is an error in one line, with the next step.
func inLine(err error) string {
	var e *api.Error
	if errors.As(err, &e) {
		return e.Code + ": " + e.Reason
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}
