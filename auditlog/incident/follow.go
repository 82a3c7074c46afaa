package incident

import (
	"fmt"
	"strings"
)

// Follow says what is left to do, in the order in which it is safe: revoke, prove the denial, end the process, look up
// what is open, rotate. It is called again whenever something was laid beside the record.
func (r *Record) Follow() {
	var do []string
	say := func(format string, a ...any) { do = append(do, fmt.Sprintf(format, a...)) }
	if v := r.Verify; v != nil && v.Exit != 0 {
		say("find out what became of the log before relying on this record: sp audit verify ended with %d", v.Exit)
	}
	if len(r.Differences) > 0 {
		say("what the gateway keeps and the log differ: believe the log; a crash can keep the last second before it from the rows, anything else is somebody's doing")
	}
	revoked := r.Times.AuthorityRevoked != nil
	if !revoked && r.State != "ended" {
		say("revoke the run: sp run revoke %s", r.Run)
	}
	alive := r.Live != nil && r.Live.Alive
	proved := r.refused() || r.Contained != nil && r.Contained.Method != ""
	if revoked && !proved && (alive || r.Live == nil) {
		say("prove that the revocation holds, no refused attempt is recorded yet: sp run contain %s", r.Run)
	}
	switch {
	case !alive || r.Server == nil:
	case r.End != nil && r.End.Signal == "SIGTERM":
		say("it outlived SIGTERM: sp run contain %s --pid %d --kill, which leaves it no time to clean up", r.Run, r.Server.ProcessID)
	case proved:
		say("the process lives: sp run contain %s --pid %d", r.Run, r.Server.ProcessID)
	default:
		say("the process lives: sp run contain %s --pid %d, once its refusal is recorded", r.Run, r.Server.ProcessID)
	}
	for _, o := range r.Unresolved {
		what := o.LookUp
		if o.JobID != "" {
			what += " (remote job " + o.JobID + ")"
		}
		if o.Resolve != "" {
			what += ", then " + o.Resolve
		}
		say("%s: %s", o.Why, what)
	}
	for _, c := range r.Calls {
		if c.Class == After {
			say("a call begun after the revocation is recorded (%s): report it, this must not be", c.Action)
		}
	}
	if len(r.Rotate) > 0 {
		say("rotate what the process itself could reach: %s", strings.Join(r.Rotate, ", "))
	}
	if len(r.Unknown) > 0 {
		say("take the record again once what is named as not shown can be shown")
	}
	if len(do) == 0 {
		do = []string{"none"}
	}
	r.FollowUp = do
}

// refused: a denial after the revocation is recorded.
func (r *Record) refused() bool {
	for _, d := range r.Denied {
		if d.After {
			return true
		}
	}
	return false
}
