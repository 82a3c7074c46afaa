package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
)

// Exit statuses of audit verify besides 0 and 2.
const (
	exitBroken       = 1
	exitSelfConsists = 3 // nobody vouches for the key, or a torn tail is not explained yet
	exitBreached     = 6 // the chain is intact, and tells what must not happen
)

// verdictUnpinned: the log agrees with itself, and its key with nothing from outside.
const verdictUnpinned = "unpinned"

func (a *app) verify() *cobra.Command {
	var (
		pub, fingerprint, against, identity string
		all, asJSON                         bool
	)
	cmd := &cobra.Command{
		Use:   "verify [DIR]",
		Short: "Check that the log was not altered: with files alone",
		Long: `Check that the log in DIR was not altered: no gateway, no vault, no secret is needed.
DIR (this user's own log by default) is the folder that holds audit.pub and audit/,
or audit/ itself. It can't vouch for itself: the key comes from --pub, from
--fingerprint, or from the pin that sp init or sp audit pin has kept.

With --identity also what it says is checked: that no call was made without a live
grant of its run and epoch, none after a revocation, and so on. That is a second
verdict, told apart: a breach never makes an intact chain read as tampered.

Exit 0 intact; 1 broken; 2 usage or unreadable; 3 self-consistent only: the key is
not pinned, or a torn tail is not explained yet; 6 chain intact, meaning breached.`,
		Args: atMost(1),
	}
	f := cmd.Flags()
	f.StringVar(&pub, "pub", "", "verify against the audit.pub in `FILE`, which does not come with DIR")
	f.StringVar(&fingerprint, "fingerprint", "", "verify against the key with this `SHA256`")
	f.StringVar(&against, "against", "", "compare with the checkpoint in `FILE` (from sp audit checkpoint), with a witness's cosignatures or without")
	f.BoolVar(&all, "all-signatures", false, "check every signature; else each segment's first and last, and the chain for what lies between")
	f.StringVar(&identity, "identity", "", "check the meaning too, with the age identity in `FILE`; - is stdin")
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
		b := readable{folder: log, key: key}
		if identity != "" {
			if b.reader, err = a.reader(identity); err != nil {
				return err
			}
		}
		v := verdict{trust: key, against: against, all: all}
		o := auditlog.VerifyOptions{Live: log.live, AllSignatures: all}
		if against != "" {
			if o.Checkpoint, err = readFile(against); err != nil {
				return err
			}
		}
		var end func()
		o.Progress, end = a.progress("verify")
		err = v.reach(log, o)
		end()
		if err != nil {
			return usage("%s", err)
		}
		fault := v.judge(a, b, identity != "")
		if asJSON {
			err = a.document(v.document())
		} else {
			a.showVerdict(v)
		}
		switch {
		case err != nil:
			return err
		case fault != nil && v.exit() != exitBroken: // a broken chain is the worse news
			return fault
		}
		return status(v.exit())
	}
	return cmd
}

// verdict is what was found, and how much that is worth.
type verdict struct {
	auditlog.Report
	trust    trust
	against  string // the checkpoint's file
	all      bool   // every signature was looked at
	took     time.Duration
	meaning  *event.Verdict // nil: it was not judged
	unjudged string         // why not
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

// judge adds the second verdict to one of a chain that holds.
func (v *verdict) judge(a *app, b readable, wanted bool) (err error) {
	switch {
	case !wanted:
		v.unjudged = "not checked: that needs --identity"
	case v.Verdict == auditlog.Broken:
		v.unjudged = "not checked: the chain is broken"
	default:
		if v.meaning, err = a.judge(b, v.Records); err != nil {
			v.unjudged = "not checked: " + strings.TrimPrefix(err.Error(), judging)
		}
	}
	return err
}

// exit: what is no known verdict is broken. Only of a chain that is worth 0 a breach is told by the status.
func (v *verdict) exit() int {
	switch v.Verdict {
	case auditlog.Intact, auditlog.Live:
		if v.meaning != nil && len(v.meaning.Breaches) > 0 {
			return exitBreached
		}
		return 0
	case auditlog.Torn, verdictUnpinned:
		return exitSelfConsists
	default:
		return exitBroken
	}
}

// verdictDocument is verify's --json. A null meaning was not checked.
type verdictDocument struct {
	Verdict       string         `json:"verdict"`
	Kind          *string        `json:"kind"`
	Segment       string         `json:"segment"`
	Offset        int64          `json:"offset"`
	Seq           uint64         `json:"seq"`
	Records       int64          `json:"records"`
	Commits       int64          `json:"commits"`
	Head          string         `json:"head"`
	Root          string         `json:"root"`
	Fingerprint   string         `json:"fingerprint"`
	Anchored      *string        `json:"anchored"`
	OpenIntents   int            `json:"openIntents"`
	Countersigned int64          `json:"countersigned"`
	Weak          weakDocument   `json:"weak"`
	Meaning       *event.Verdict `json:"meaning"`
}

// weakDocument is the end of the log that its identity has not signed.
type weakDocument struct {
	Commits int64     `json:"commits"`
	Records int64     `json:"records"`
	Seq     uint64    `json:"seq"`
	Since   time.Time `json:"since,omitzero"`
}

func (v *verdict) document() verdictDocument {
	return verdictDocument{
		Verdict: v.Verdict, Kind: optional(v.Kind), Segment: v.Segment, Offset: v.Offset, Seq: v.Seq,
		Records: v.Records, Commits: v.Commits, Head: v.Head, Root: v.Root,
		Fingerprint: v.Fingerprint, Anchored: optional(v.Anchored), OpenIntents: v.OpenIntents,
		Countersigned: v.Countersigned, Weak: weakDocument(v.Weak), Meaning: v.meaning,
	}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
