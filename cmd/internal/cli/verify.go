package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sallyport/auditlog"
)

// Exit statuses of audit verify besides 0 and 2.
const (
	exitBroken       = 1
	exitSelfConsists = 3 // nobody vouches for the key, or a torn tail is not explained yet
)

// verdictUnpinned: the log agrees with itself, and its key with nothing from outside.
const verdictUnpinned = "unpinned"

func (a *app) verify() *cobra.Command {
	var (
		pub, fingerprint, against string
		asJSON                    bool
	)
	cmd := &cobra.Command{
		Use:   "verify [DIR]",
		Short: "Check that the log was not altered: with files alone",
		Long: `Check that the log in DIR was not altered: no gateway, no vault, no secret is needed.
DIR (this user's own log by default) is the folder that holds audit.pub and audit/,
or audit/ itself. It can't vouch for itself: the key comes from --pub, from
--fingerprint, or from the pin that sp init or sp audit pin has kept.

Exit 0 intact; 1 broken; 2 usage or unreadable; 3 self-consistent only: the key is
not pinned, or a torn tail is not explained yet.`,
		Args: atMost(1),
	}
	f := cmd.Flags()
	f.StringVar(&pub, "pub", "", "verify against the audit.pub in `FILE`, which does not come with DIR")
	f.StringVar(&fingerprint, "fingerprint", "", "verify against the key with this `SHA256`")
	f.StringVar(&against, "against", "", "compare with the checkpoint in `FILE` (from sp audit checkpoint)")
	f.BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		log, err := a.openFolder(append(args, "")[0])
		if err != nil {
			return err
		}
		key, err := a.trust(log, pub, fingerprint)
		if err != nil {
			return err
		}
		v := verdict{trust: key, against: against}
		o := auditlog.VerifyOptions{Live: log.live, Progress: a.progress("verify")}
		if against != "" {
			if o.Checkpoint, err = readFile(against); err != nil {
				return err
			}
		}
		if err := v.reach(log, o); err != nil {
			return usage("%s", err)
		}
		if asJSON {
			err = a.document(v.document())
		} else {
			a.showVerdict(v)
		}
		if err != nil {
			return err
		}
		return status(v.exit())
	}
	return cmd
}

// verdict is what was found, and how much that is worth.
type verdict struct {
	auditlog.Report
	trust   trust
	against string // the checkpoint's file
	took    time.Duration
}

func (v *verdict) reach(f folder, o auditlog.VerifyOptions) (err error) {
	if v.trust.fault != nil {
		v.Report = *v.trust.fault
		return nil
	}
	start := time.Now()
	v.Report, err = auditlog.Verify(f.segments, v.trust.pub, o)
	v.took = time.Since(start)
	if !v.trust.pinned && (v.Verdict == auditlog.Intact || v.Verdict == auditlog.Live) {
		v.Verdict = verdictUnpinned
	}
	return err
}

// exit: what is no known verdict is broken.
func (v *verdict) exit() int {
	switch v.Verdict {
	case auditlog.Intact, auditlog.Live:
		return 0
	case auditlog.Torn, verdictUnpinned:
		return exitSelfConsists
	default:
		return exitBroken
	}
}

// verdictDocument is verify's --json. Meaning is null: it was not checked.
type verdictDocument struct {
	Verdict     string    `json:"verdict"`
	Kind        *string   `json:"kind"`
	Segment     string    `json:"segment"`
	Offset      int64     `json:"offset"`
	Seq         uint64    `json:"seq"`
	Records     int64     `json:"records"`
	Commits     int64     `json:"commits"`
	Head        string    `json:"head"`
	Root        string    `json:"root"`
	Fingerprint string    `json:"fingerprint"`
	Anchored    *string   `json:"anchored"`
	OpenIntents int       `json:"openIntents"`
	Meaning     *struct{} `json:"meaning"`
}

func (v *verdict) document() verdictDocument {
	return verdictDocument{
		Verdict: v.Verdict, Kind: optional(v.Kind), Segment: v.Segment, Offset: v.Offset, Seq: v.Seq,
		Records: v.Records, Commits: v.Commits, Head: v.Head, Root: v.Root,
		Fingerprint: v.Fingerprint, Anchored: optional(v.Anchored), OpenIntents: v.OpenIntents,
	}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// progress shows how far a long reading is, on a terminal; nil where there is none.
func (a *app) progress(what string) func(done, total int64) {
	if !a.errTTY {
		return nil
	}
	const width = 30
	start, shown := time.Now(), false
	return func(done, total int64) {
		if total <= 0 || !shown && (time.Since(start) < time.Second || done >= total) {
			return
		}
		shown = true
		full := int(done * width / total)
		fmt.Fprintf(a.err, "\r%s [%s%s] %3d%%", what, strings.Repeat("#", full), strings.Repeat(".", width-full), done*100/total)
		if done >= total {
			fmt.Fprint(a.err, "\r\x1b[K")
		}
	}
}
