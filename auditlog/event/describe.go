package event

import (
	"fmt"
	"strconv"
	"strings"
)

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
		w.by(e.Operator, e.Peer)
	case VaultCreated:
		w.text(e.VaultID)
	case VaultUnlocked:
		w.pair("operator", e.Operator)
	case VaultLocked:
		w.text(e.Reason)
		w.by(e.Operator, e.Peer)
	case VaultQuarantined:
		w.text(e.Reason)
	case VaultReleased:
		w.text(e.Reason)
		w.pair("operator", e.Operator)
		if e.AcceptedLog {
			w.note("its log was accepted as it is")
		}
		w.count("logEnd", int64(e.LogEnd))
		w.count("logSeen", int64(e.LogSeen))
	case RowsForged:
		w.count("rows", int64(len(e.Rows)))
		w.note("put there by another hand, and ignored")
	case SlotAdded:
		w.text(e.Kind)
		w.pair("slot", e.Slot)
		w.pair("operator", e.Operator)
	case SlotRemoved:
		w.text(e.Kind)
		w.pair("slot", e.Slot)
		w.pair("operator", e.Operator)
	case VaultRekeyed:
		w.count("generation", int64(e.Generation))
		w.pair("operator", e.Operator)
	case BackupMade:
		w.text(e.Digest)
		w.count("bytes", e.Length)
		w.pair("operator", e.Operator)
	case VaultRestored:
		w.text(e.Digest)
		w.count("generation", int64(e.Generation))
		w.pair("operator", e.Operator)
		if e.NewLog {
			w.note("this log began with it")
		}
	case SettingsChanged:
		w.pair("settings", strings.Join(e.Settings, ","))
		w.pair("operator", e.Operator)
	case LogRecipientsChanged:
		w.pair("recipients", strings.Join(e.Recipients, ","))
		w.pair("operator", e.Operator)
	case RunOpened:
		run = e.Run
		w.text(e.Run)
		w.peer(e.Agent)
		for _, p := range e.Launchers {
			w.pair("via", p.Exe)
		}
	case RunOrphaned:
		run = e.Run
		w.note("its client is gone")
	case RunEnded:
		run = e.Run
		w.note("nothing of it is left")
	case RunDenied:
		run = e.Run
		w.note("two cards denied")
	case RunRevoked:
		run = e.Run
		w.by(e.Operator, e.Peer)
		w.count("left", int64(len(e.Left)))
		for _, a := range e.Left {
			w.text(a)
		}
	default:
		return l.describeAuthority()
	}
	return run, epoch, strings.Join(w, " ")
}

// describeCall: Activity.
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
			w.note(fmt.Sprintf("(%d times)", e.Count))
		}
		w.pair("detail", e.Detail)
		w.count("pid", int64(e.Peer.ProcessID))
	case ToolCalled:
		run, epoch = e.Run, e.Epoch
		w.text(e.Action)
		w.call(e.Call)
		w.pair("preview", e.Preview)
		w.pair("decision", e.Decision)
		w.pair("grant", short(e.Grant))
		w.pair("approval", short(e.Approval))
		w.count("pid", int64(e.Peer.ProcessID))
		if e.ArtifactDrift {
			w.note("(its program was exchanged on disk)")
		}
		w.pair("server", e.ServerLabel)
		w.pair("catalog", e.Catalog)
		w.pair("request", e.RequestID)
		w.pair("during", strings.Join(e.During, ","))
	case OperatorCalled:
		w.text(e.Action)
		w.call(e.Call)
		w.pair("purpose", e.Purpose)
		w.pair("of", short(e.Of))
		w.pair("operator", e.Operator)
	case JobChanged:
		run, epoch = e.Run, e.Epoch
		w.text(e.Action)
		w.text(e.Outcome)
		w.pair("job", e.JobID)
		if e.Exit != nil {
			w.pair("exitStatus", strconv.Itoa(*e.Exit))
		}
		w.pair("signal", e.Signal)
		w.pair("asked", short(e.Asked))
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
		w.pair("oldEpoch", e.OldEpoch)
		w.pair("newEpoch", e.NewEpoch)
		w.call(l.Intent)
	case ToolUnresolved:
		run, epoch = l.Intent.Run, l.Intent.Epoch
		w.text(e.Action)
		w.text(e.Outcome)
		w.pair("cause", e.Cause)
		w.call(l.Intent)
	case ToolResolved:
		w.text(e.Action)
		w.text(e.Resolution)
		w.pair("operator", e.Operator)
	case ToolCancelRequested:
		run, epoch = e.Run, e.Epoch
		w.text(e.Action)
		w.pair("by", e.By)
	case LateResult:
		run, epoch = e.Run, e.Epoch
		w.text(e.Action)
		w.note("its caller was gone")
	}
	return run, epoch, strings.Join(w, " ")
}
