package cli

import (
	"fmt"

	"sallyport/auditlog"
)

// showVerdict prints what was found, for people. It always says what was not excluded.
func (a *app) showVerdict(v verdict) {
	colour := amber
	switch v.exit() {
	case 0:
		colour = green
	case exitBroken:
		colour = red
	}
	fmt.Fprintf(a.out, "verdict       %s\n", a.paint(colour, v.Verdict))
	if v.Verdict == auditlog.Broken {
		facts(a.out, "",
			"kind        ", v.Kind,
			"segment     ", v.Segment,
			"offset      ", fmt.Sprint(v.Offset),
			"sequence    ", fmt.Sprint(v.Seq),
			"what        ", v.Detail,
		)
	}
	if v.Segments > 0 {
		facts(a.out, "",
			"segments    ", fmt.Sprint(v.Segments),
			"records     ", fmt.Sprintf("%d in %d commits", v.Records, v.Commits),
			"chain head  ", v.Head,
			"tree root   ", v.Root,
			"signed      ", span(v),
			"signatures  ", signatures(v),
			"weak        ", weak(v),
			"torn        ", torn(v),
			"open intents", fmt.Sprint(v.OpenIntents),
			"throughput  ", throughput(v),
		)
	}
	facts(a.out, "", "key         ", key(v))
	if v.Verdict != auditlog.Broken {
		facts(a.out, "", "anchored    ", a.anchored(v))
	}
	a.showMeaning(v)
}

func span(v verdict) string {
	if v.First.IsZero() {
		return ""
	}
	return stamp(v.First) + " to " + stamp(v.Last)
}

func signatures(v verdict) string {
	if v.all {
		return "every commit's was checked"
	}
	return "each segment's first and last were checked; --all-signatures looks at every one"
}

// weak is what only the running gateway's keys vouch for.
func weak(v verdict) string {
	w := v.Weak
	if v.Verdict == auditlog.Broken {
		return "" // how far the log goes is not known
	}
	if w.Commits == 0 {
		return "nothing: the log identity has signed to the end"
	}
	what := fmt.Sprintf("%d records from %d on, in %d commits", w.Records, w.Seq, w.Commits)
	if w.Records == 0 {
		what = fmt.Sprintf("%d commits without a record", w.Commits)
	}
	if w.Since.IsZero() {
		return what + ": the log identity has signed none"
	}
	return what + ": the log identity has not signed since " + stamp(w.Since)
}

func torn(v verdict) string {
	switch {
	case v.Verdict == auditlog.Live:
		return "no: a gateway is writing at the end of " + v.Segment
	case v.Verdict == auditlog.Torn:
		return fmt.Sprintf("%s at offset %d: %s; a crash, which the gateway's next start explains, or a changed end: --against a checkpoint tells", v.Segment, v.Offset, v.Detail)
	case v.Torn > 0 && v.Verdict == auditlog.Broken:
		return fmt.Sprintf("%d bytes that belong to no commit, up to there", v.Torn)
	case v.Torn > 0:
		return fmt.Sprintf("%d bytes that crashes left, each explained by the segment after it", v.Torn)
	default:
		return "none"
	}
}

func throughput(v verdict) string {
	if v.took <= 0 {
		return ""
	}
	const mib = 1 << 20
	size := float64(v.Bytes) / mib
	return fmt.Sprintf("%.1f MiB in %s, %.0f MiB/s", size, v.took.Round(1e6), size/v.took.Seconds())
}

func key(v verdict) string {
	switch {
	case v.Fingerprint == "":
		return ""
	case v.trust.pinned:
		return v.Fingerprint + ", pinned by " + v.trust.by
	default:
		return v.Fingerprint + ", NOT pinned: it is " + v.trust.by + ". Compare it with what `sp init` printed, then give --fingerprint or pin it"
	}
}

func (a *app) anchored(v verdict) string {
	if v.Anchored != "" {
		return "by " + v.against + ": " + v.Anchored
	}
	return "no: truncation before " + stamp(a.now()) + " cannot be excluded: no checkpoint given"
}
