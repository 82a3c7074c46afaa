package event

import (
	"strconv"
	"strings"
	"time"
)

// describeAuthority: epochs, approvals, grants, and what the operator keeps.
func (l Line) describeAuthority() (run, epoch, what string) {
	var w words
	switch e := l.Event.(type) {
	case EpochOpened:
		run, epoch = e.Run, e.Epoch
		w.text(e.Epoch)
		w.pair("server", e.ServerLabel)
		w.peer(e.Process)
		for _, p := range e.Launchers {
			w.pair("via", p.Exe)
		}
	case EpochEnded:
		run, epoch = e.Run, e.Epoch
		w.text(e.Reason)
		w.by(e.Operator, e.Peer)
	case ApprovalRequested:
		run, epoch = e.Run, e.Epoch
		w.text(e.Approval)
		w.call(Call{Tool: e.Tool, Target: e.Target, Credential: e.Credential})
	case ApprovalGranted:
		run, epoch = e.Run, e.Epoch
		w.text(e.Approval)
		w.pair("scope", e.Scope)
		w.pair("proof", e.Proof)
		w.pair("sitting", e.Sitting)
		if len(e.Assertion.Signature) > 0 {
			w.note("signed")
		}
		w.pair("operator", e.Operator)
	case ApprovalDenied:
		run, epoch = e.Run, e.Epoch
		w.text(e.Approval)
		w.by(e.Operator, e.Peer)
	case ApprovalExpired:
		run, epoch = e.Run, e.Epoch
		w.text(e.Approval)
		w.text(e.Reason)
	case ApprovalsMuted:
		w.text(e.Key)
		w.text(e.Chain)
		w.count("waiting", int64(e.Waiting))
		w.by(e.Operator, e.Peer)
	case ApprovalsUnmuted:
		w.text(e.Key)
		w.text(e.Chain)
		w.count("refused", int64(e.Refused))
		w.pair("operator", e.Operator)
	case SittingOpened:
		w.text(e.Sitting)
		w.pair("proof", e.Proof)
		w.pair("ends", e.Ends.UTC().Format(time.RFC3339))
		w.peer(e.Peer)
	case SittingClosed:
		w.text(e.Sitting)
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
		w.by(e.Operator, e.Peer)
	case IncidentRecorded:
		run = e.Run
		w.count("upto", int64(e.Upto))
		w.pair("operator", e.Operator)
	case ProcessReparented:
		run, epoch = e.Run, e.Epoch
		w.count("pid", int64(e.ProcessID))
		w.count("parent", int64(e.Parent))
		w.count("ppid", int64(e.PPID))
		w.note("its parent is gone, the client lives")
	case OperatorRefused:
		w.text(e.Path)
		w.text(e.Reason)
		w.peer(e.Peer)
	case CredentialAdded:
		w.text(e.Credential)
		w.pair("kind", e.Kind)
		w.pair("version", strconv.FormatUint(e.Version, 10))
		w.pair("operator", e.Operator)
	case CredentialRotated:
		w.text(e.Credential)
		w.pair("version", strconv.FormatUint(e.Version, 10))
		w.pair("operator", e.Operator)
	case CredentialRebound:
		w.text(e.Credential)
		w.pair("version", strconv.FormatUint(e.Version, 10))
		w.pair("changed", strings.Join(e.Changed, ","))
		w.pair("operator", e.Operator)
	case CredentialRemoved:
		w.text(e.Credential)
		w.pair("operator", e.Operator)
	case TokenKept:
		w.text(e.Credential)
		w.pair("field", e.Field)
		w.pair("action", e.Action)
	case CredentialTested:
		w.text(e.Credential)
		w.text(e.Operation)
		w.pair("outcome", e.Outcome)
		if e.Status != 0 {
			w.pair("status", strconv.Itoa(e.Status))
		}
		w.pair("operator", e.Operator)
	case TargetAdded:
		w.text(e.Target)
		w.text(e.Address)
		w.pair("credential", e.Credential)
		w.pair("shell", e.Shell)
		w.pair("hostKeys", strings.Join(e.HostKeys, ","))
		w.pair("operator", e.Operator)
	case TargetChanged:
		w.text(e.Target)
		w.text(e.Address)
		w.pair("credential", e.Credential)
		w.pair("shell", e.Shell)
		w.pair("hostKeys", strings.Join(e.HostKeys, ","))
		w.pair("changed", strings.Join(e.Changed, ","))
		w.pair("operator", e.Operator)
	case TargetRemoved:
		w.text(e.Target)
		w.pair("operator", e.Operator)
	case PasskeyAdded:
		w.text(e.Passkey)
		w.pair("rpId", e.RPID)
		w.pair("operator", e.Operator)
	case PasskeyRemoved:
		w.text(e.Passkey)
		w.pair("operator", e.Operator)
	default:
		return l.describeProcess()
	}
	return run, epoch, strings.Join(w, " ")
}
