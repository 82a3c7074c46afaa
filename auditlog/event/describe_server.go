package event

import (
	"fmt"
	"strconv"
	"strings"
)

// describeServer: supervised servers.
func (l Line) describeServer() (run, epoch, what string) {
	var w words
	switch e := l.Event.(type) {
	case ServerStarted:
		run, epoch = e.Run, e.Epoch
		w.text(e.ServerLabel)
		w.count("pid", int64(e.ProcessID))
		w.pair("cause", e.Cause)
		w.execution(e.Execution)
		w.count("workers", int64(e.Workers))
		w.pair("reload", e.Reload)
		w.count("exitWithinMs", int64(e.ExitWithin))
		w.pair("children", e.Children)
	case ServerMeasured:
		run, epoch = e.Run, e.Epoch
		w.text(e.ServerLabel)
		w.count("pid", int64(e.ProcessID))
		if len(e.Differs) == 0 {
			w.note("as planned")
		}
		w.pair("differs", strings.Join(e.Differs, ", "))
		w.execution(e.Execution)
	case ServerReplaced:
		run, epoch = e.Run, e.NewEpoch
		w.text(e.ServerLabel)
		w.pair("cause", e.Cause)
		w.pair("oldEpoch", e.OldEpoch)
		w.pair("newEpoch", e.NewEpoch)
		w.count("oldPid", int64(e.OldProcessID))
		w.count("newPid", int64(e.NewProcessID))
	case ArtifactChanged:
		run, epoch = e.Run, e.Epoch
		w.text(e.ServerLabel)
		w.pair("build changed", strings.Join(e.Changed, ", "))
		w.note(fmt.Sprintf("running process unchanged: pid=%d", e.ProcessID))
	case CatalogChanged:
		run, epoch = e.Run, e.Epoch
		w.text(e.ServerLabel)
		w.pair("catalog", e.Catalog)
		w.pair("old", e.Old)
		w.pair("tools", strconv.Itoa(e.Tools))
		w.pair("contract", strings.Join(e.Contract, ","))
		w.pair("diff", strings.Join(e.Diff, "; "))
	case CatalogServed:
		run, epoch = e.Run, e.Epoch
		w.text(e.ServerLabel)
		w.pair("catalog", e.Catalog)
	case ServerSignalled:
		run, epoch = e.Run, e.Epoch
		w.text(e.ServerLabel)
		w.count("pid", int64(e.ProcessID))
		w.text(e.Signal)
		if e.Escaped {
			w.note("(it had left the group)")
		}
		if e.Forced {
			w.note("forced")
		}
	case ServerStopped:
		run, epoch = e.Run, e.Epoch
		w.text(e.ServerLabel)
		w.text(e.Reason)
		if e.Exited {
			w.note("exited by itself")
		}
		if e.Forced {
			w.note("forced")
		}
		w.pair("swept", numbers(e.Swept))
		w.pair("left", numbers(e.Left))
	case CleanupExpectationBroken:
		run, epoch = e.Run, e.Epoch
		w.text(e.ServerLabel)
		w.pair("expected", e.Expected)
		w.pair("seen", e.Seen)
	default:
		return l.describeCall()
	}
	return run, epoch, strings.Join(w, " ")
}

// execution names what identifies the code.
func (w *words) execution(x Execution) {
	w.pair("command", strings.Join(x.LaunchCommand, " "))
	w.pair("directory", x.WorkingDirectory)
	w.pair("entry", x.Entry)
	w.pair("entryDigest", x.EntryDigest)
	w.pair("lockfileDigest", x.LockfileDigest)
	w.pair("treeDigest", x.TreeDigest)
	w.pair("runtime", x.Runtime)
	w.pair("imageDigest", x.ImageDigest)
	w.pair("unpinned", strings.Join(x.Unpinned, "; "))
}
