package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
	"sallyport/gateway/home"
)

// Exit statuses that no code of the table stands for.
const (
	exitFailed = 1
	exitUsage  = 2
)

var errInterrupted = errors.New("interrupted")

// usageError: the command line cannot be right, whatever the gateway's state.
type usageError struct {
	msg string
	err error // what it came from, if that matters
}

func (e *usageError) Error() string { return e.msg }
func (e *usageError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &usageError{msg: fmt.Sprintf(format, args...)}
}

// exitError ends sp with a status; what there is to say was said already.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// adviceError carries the step that helps.
type adviceError struct {
	err  error
	next string
}

func (e *adviceError) Error() string { return e.err.Error() }
func (e *adviceError) Unwrap() error { return e.err }

func unknownCommand(cmd *cobra.Command, word string) error {
	msg := fmt.Sprintf("unknown command %q for %q", word, cmd.CommandPath())
	if s := cmd.SuggestionsFor(word); len(s) > 0 {
		msg += "; did you mean " + strings.Join(s, " or ") + "?"
	}
	return &usageError{msg: msg}
}

// report says on stderr what went wrong and what to do next, and returns the exit status.
func (a *app) report(cmd *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	var (
		exit   exitError
		refuse *api.Error
		wrong  *usageError
		advice *adviceError
		unread *cannotJudge
	)
	cause, next, code := err.Error(), "", exitFailed
	switch {
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &refuse):
		cause, next, code = refuse.Code+": "+refuse.Reason, refuse.Retry, api.Lookup(refuse.Code).Exit
		if refuse.Action != "" {
			cause += " (" + refuse.Action + ")"
		}
		if refuse.Code == "gateway_unreachable" && next == api.Lookup(refuse.Code).Retry {
			next = a.startAdvice(next)
		}
		if list := listingOf(cmd); refuse.Code == "not_found" && list != "" {
			next = "`" + list + "` lists what there is"
		}
	case errors.As(err, &wrong):
		next, code = cmd.CommandPath()+" --help", exitUsage
	case errors.As(err, &unread):
		code = exitUsage
	case errors.Is(err, home.ErrNotPrivate):
		next = "make the folder yours alone (chmod 700)"
	}
	if errors.As(err, &advice) {
		next = advice.next
	}
	fmt.Fprintf(a.err, "sp: %s\n", escape(cause))
	if next != "" {
		fmt.Fprintf(a.err, "  next: %s\n", escape(next))
	}
	return code
}

// listingOf is the command that lists what cmd takes the name of; "": there is none.
func listingOf(cmd *cobra.Command) string {
	switch noun := cmd.Parent(); {
	case cmd.Name() == "approve", cmd.Name() == "deny":
		return "sp approvals"
	case cmd.Name() == "incident":
		return "sp run ls"
	case noun == nil:
		return ""
	case noun.Name() == "epoch":
		return "sp run show RUN"
	default:
		for _, c := range noun.Commands() {
			if c.Name() == "ls" {
				return c.CommandPath()
			}
		}
		return ""
	}
}

// exactly takes the arguments that names lists, in that order.
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usage("%s is missing", names[len(args)])
		}
		return atMost(len(names))(nil, args)
	}
}

func atMost(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > n {
			return usage("unexpected argument %q", args[n])
		}
		return nil
	}
}
