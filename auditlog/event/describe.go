package event

import (
	"fmt"
	"strconv"
	"strings"
)

// words joins the parts of a description. Empty parts fall out.
type words []string

// text adds one value that somebody else may have chosen: escaped, bounded, quoted where its end would be unclear.
func (w *words) text(s string) {
	if s == "" {
		return
	}
	s = clip(escape(s), 400)
	if strings.ContainsAny(s, ` "=`) {
		s = `"` + strings.ReplaceAll(s, `"`, `\"`) + `"`
	}
	*w = append(*w, s)
}

// pair adds name=value unless the value is empty.
func (w *words) pair(name, value string) {
	if value == "" {
		return
	}
	var v words
	v.text(value)
	*w = append(*w, name+"="+v[0])
}

func (w *words) count(name string, n int64) {
	if n != 0 {
		w.pair(name, strconv.FormatInt(n, 10))
	}
}

func (w *words) peer(p Peer) {
	w.text(p.Exe)
	w.count("pid", int64(p.ProcessID))
	w.pair("identity", p.Identity)
	w.pair("digest", p.ExeDigest)
}

func (w *words) call(c Call) {
	w.text(c.Tool)
	w.text(c.Target)
	w.text(c.Operation)
	w.pair("credential", c.Credential)
}

// describe says which run and epoch a line is about, and what happened.
func (l Line) describe() (run, epoch, what string) {
	var w words
	switch e := l.Event.(type) {
	case GatewayStarted:
		w.pair("version", e.Version)
		w.count("pid", int64(e.ProcessID))
		w.count("absentCalls", int64(e.AbsentCalls))
		w.count("recovered", int64(e.Recovered))
	case GatewayStopped:
		w.text(e.Reason)
	case VaultCreated:
		w.text(e.VaultID)
	case VaultUnlocked:
		w.pair("operator", e.Operator)
	case VaultLocked:
		w.text(e.Reason)
		w.pair("operator", e.Operator)
	case VaultQuarantined:
		w.text(e.Reason)
	case RunOpened:
		run = e.Run
		w.text(e.Run)
		w.peer(e.Agent)
		for _, p := range e.Launchers {
			w.pair("via", p.Exe)
		}
	case RunOrphaned:
		run = e.Run
		w.text("its client is gone")
	case RunEnded:
		run = e.Run
	case RunDenied:
		run = e.Run
		w.text("two cards denied")
	case RunRevoked:
		run = e.Run
		w.pair("operator", e.Operator)
		w.count("left", int64(len(e.Left)))
		for _, a := range e.Left {
			w.text(a)
		}
	default:
		return l.describeAuthority()
	}
	return run, epoch, strings.Join(w, " ")
}

func (l Line) describeAuthority() (run, epoch, what string) {
	var w words
	switch e := l.Event.(type) {
	case EpochOpened:
		run, epoch = e.Run, e.Epoch
		w.text(e.Epoch)
		w.pair("server", e.ServerLabel)
		w.peer(e.Process)
	case EpochEnded:
		run, epoch = e.Run, e.Epoch
		w.text(e.Reason)
	case ApprovalRequested:
		run, epoch = e.Run, e.Epoch
		w.text(e.Approval)
		w.call(Call{Tool: e.Tool, Target: e.Target, Credential: e.Credential})
	case ApprovalGranted:
		run, epoch = e.Run, e.Epoch
		w.text(e.Approval)
		w.pair("scope", e.Scope)
		w.pair("proof", e.Proof)
		w.pair("operator", e.Operator)
	case ApprovalDenied:
		run, epoch = e.Run, e.Epoch
		w.text(e.Approval)
		w.pair("operator", e.Operator)
	case ApprovalExpired:
		run, epoch = e.Run, e.Epoch
		w.text(e.Approval)
		w.text(e.Reason)
	case GrantIssued:
		run, epoch = e.Run, e.Epoch
		w.text(e.Grant)
		w.pair("tools", strings.Join(e.ToolScope, ","))
		w.pair("credentials", strings.Join(e.CredentialScope, ","))
		w.pair("until", e.ExpiresWhen)
		w.pair("approval", short(e.Approval))
	case GrantRevoked:
		run, epoch = e.Run, e.Epoch
		w.text(e.Grant)
		w.text(e.Reason)
	case ProcessReparented:
		run, epoch = e.Run, e.Epoch
		w.count("pid", int64(e.ProcessID))
	case OperatorRefused:
		w.text(e.Path)
		w.text(e.Reason)
		w.peer(e.Peer)
	case CredentialAdded:
		w.text(e.Credential)
		w.pair("kind", e.Kind)
		w.pair("version", strconv.FormatUint(e.Version, 10))
		w.pair("operator", e.Operator)
	case CredentialRemoved:
		w.text(e.Credential)
		w.pair("operator", e.Operator)
	case TargetAdded:
		w.text(e.Target)
		w.text(e.Address)
		w.pair("credential", e.Credential)
		w.pair("shell", e.Shell)
		w.pair("hostKeys", strings.Join(e.HostKeys, ","))
		w.pair("operator", e.Operator)
	case TargetRemoved:
		w.text(e.Target)
		w.pair("operator", e.Operator)
	default:
		return l.describeCall()
	}
	return run, epoch, strings.Join(w, " ")
}

func (l Line) describeCall() (run, epoch, what string) {
	var w words
	switch e := l.Event.(type) {
	case AuthorizationDenied:
		run, epoch = e.Run, e.Epoch
		w.text(e.Reason)
		w.text(e.Method)
		w.call(e.Call)
		w.pair("approvedEpoch", e.ApprovedEpoch)
		w.pair("currentEpoch", e.CurrentEpoch)
		if e.Count > 1 {
			w = append(w, fmt.Sprintf("(%d times)", e.Count))
		}
		w.pair("detail", e.Detail)
		w.count("pid", int64(e.Peer.ProcessID))
	case ToolCalled:
		run, epoch = e.Run, e.Epoch
		w.text(e.Action)
		w.call(e.Call)
		w.pair("decision", e.Decision)
		w.pair("grant", short(e.Grant))
		w.pair("approval", short(e.Approval))
		w.count("pid", int64(e.Peer.ProcessID))
	case ToolFinished:
		run, epoch = e.Run, e.Epoch
		w.text(e.Action)
		w.text(e.Outcome)
		w.text(e.Reason)
		w.count("status", int64(e.Status))
		if e.Exit != nil {
			w.pair("exitStatus", strconv.Itoa(*e.Exit))
		}
		w.pair("signal", e.Signal)
		w.pair("flags", strings.Join(e.Flags, ","))
		w.count("reflectedCount", int64(e.Reflected))
		w.pair("job", e.JobID)
		w.call(l.Intent)
	case ToolUnresolved:
		run, epoch = l.Intent.Run, l.Intent.Epoch
		w.text(e.Action)
		w.text(e.Outcome)
		w.pair("cause", e.Cause)
		w.call(l.Intent)
	case LateResult:
		run, epoch = e.Run, e.Epoch
		w.text(e.Action)
		w.text("its caller was gone")
	}
	return run, epoch, strings.Join(w, " ")
}
