package authz

import "slices"

// Decide walks the ladder: fixed order, first hit wins. It is total, keeps nothing, and the zero Facts are denied.
// The gate (rung 11) is this same walk, once more, on fresh facts.
func Decide(f Facts) Decision {
	rungs := [...]func(*Facts) Reason{parses, identified, runOpen, vaultReady, epochCurrent, bound, resolved, withinLimits}
	for i, rung := range rungs {
		if skips(f.Walk, i) {
			continue
		}
		if r := rung(&f); r != "" {
			return refuse(&f, r)
		}
	}
	switch f.Walk {
	case ControlWalk, WrapperWalk:
		return Decision{Verdict: Allow, Reason: ReasonGranted}
	default:
		return authorized(&f)
	}
}

// skips tells whether a walk passes a rung by. What is no walk skips none.
func skips(w Walk, rung int) bool {
	switch w {
	case ControlWalk:
		return rung >= 4 && rung <= 6
	case WrapperWalk:
		return rung >= 3 && rung <= 6
	default:
		return false
	}
}

func refuse(f *Facts, r Reason) Decision {
	d := Decision{Verdict: Deny, Reason: r}
	if r == AuthorizationStale {
		d.ApprovedEpoch, d.CurrentEpoch = f.Approved, f.Caller.Epoch
		if d.ApprovedEpoch == "" || d.ApprovedEpoch == d.CurrentEpoch {
			d.ApprovedEpoch = f.Caller.Meant
		}
	}
	return d
}

// parses is rung 0.
func parses(f *Facts) Reason { return f.Request.Fault }

// identified is rung 1. A caller without a run has no one to answer for it.
func identified(f *Facts) Reason {
	c := f.Caller
	if !c.Identified || c.Run == "" || c.Identity < Strong || c.Identity > Contained {
		return PeerUnidentified
	}
	if !c.Same {
		return PeerReplaced
	}
	return ""
}

// runOpen is rung 2. A state that is none is read as the least authority there is.
func runOpen(f *Facts) Reason {
	switch f.Run {
	case Pending, Active:
		return ""
	case Orphaned:
		return RunOrphaned
	case Denied:
		if len(f.Request.Access) > 0 && f.Request.Reopens {
			return ""
		}
		return RunDenied
	case Revoked:
		return RunRevoked
	case Ended:
		return RunEnded
	default:
		return PeerUnidentified
	}
}

// vaultReady is rung 3. A state that is none is a vault nobody should trust.
func vaultReady(f *Facts) Reason {
	switch f.Vault {
	case VaultReady:
		return ""
	case VaultAbsent:
		return ReasonVaultAbsent
	case VaultLocked:
		return ReasonVaultLocked
	default:
		return ReasonVaultQuarantined
	}
}

// epochCurrent is rung 4. Only a supervised server can have another epoch's approval, or be short of live.
func epochCurrent(f *Facts) Reason {
	c := f.Caller
	stale := f.Approved != "" && f.Approved != c.Epoch
	switch {
	case c.Epoch == "":
		return ReasonEpochEnded
	case c.Down:
		return ServerDown
	case c.Meant != "" && c.Meant != c.Epoch: // composed for code that is not there any more
		return AuthorizationStale
	case c.Unstable:
		return IdentityUnstable
	case c.Suspended && c.State != EpochEnded:
		return ServerSuspended
	case c.State == IdentityPending || c.State == CatalogReady:
		if stale {
			return AuthorizationStale
		}
		return NotAuthorized
	case c.State != Live:
		return ReasonEpochEnded
	case stale && cover(f) < 0:
		return AuthorizationStale
	case f.Catalog.Shown != f.Catalog.Current:
		return CatalogStale
	}
	return ""
}

// bound is rung 5. A plan without a tool or a digest is none: nothing could be approved for it.
func bound(f *Facts) Reason {
	q := f.Request
	switch {
	case q.Unbound != "":
		return q.Unbound
	case !q.Bound, q.Tool == "", q.Digest == "":
		return RuleMismatch
	}
	return ""
}

// resolved is rung 6.
func resolved(f *Facts) Reason {
	if f.Request.Unresolved && f.Request.Effect != Read {
		return OutcomeUnresolved
	}
	return ""
}

// withinLimits is rung 7.
func withinLimits(f *Facts) Reason {
	l := f.Load
	switch {
	case l.RateLimited:
		return RateLimited
	case l.InFlight >= l.RunLimit, l.Total >= l.TotalLimit:
		return Busy
	}
	return ""
}

// authorized is rungs 8 to 10.
func authorized(f *Facts) Decision {
	if f.Caller.Idle {
		return refuse(f, NoCallInFlight)
	}
	if len(f.Request.Access) > 0 {
		return access(f)
	}
	g := cover(f)
	if g < 0 {
		return ask(f)
	}
	d := Decision{Verdict: Allow, Reason: ReasonGranted, Grant: f.Grants[g].ID}
	if eachUse(f, &f.Grants[g]) {
		if !approved(f) {
			return ask(f)
		}
		d.Approval = f.Approval.ID
	}
	if f.Request.AuditDown {
		return refuse(f, AuditUnavailable)
	}
	return d
}

// access is rung 8 of a request for a grant: one that gives each of its tools already is the answer. It does nothing, so
// no yes to one use is asked for, nothing is used up, and no intent has to be durable.
func access(f *Facts) Decision {
	each, of := *f, -1
	each.Request.Digest = "" // what was given for one plan alone gives no tool
	for _, tool := range f.Request.Access {
		each.Request.Tool = tool
		if of = cover(&each); of < 0 {
			return ask(f)
		}
	}
	return Decision{Verdict: Allow, Reason: ReasonGranted, Grant: f.Grants[of].ID}
}

// ask puts the question to a person, unless too many stand before it.
func ask(f *Facts) Decision {
	if f.Load.Asks >= f.Load.AskLimit {
		return refuse(f, RateLimited)
	}
	return Decision{Verdict: Ask, Reason: NotAuthorized}
}

// cover returns the index of the grant that admits the request, or -1. Of several the narrowest is spent, so that less
// stays behind: one for this plan alone, then a counted one, then the first; of two like that a weak caller takes the one
// given to it as weak. A run that is not active has no live grant,
// whatever the list says.
func cover(f *Facts) int {
	best, width := -1, 3
	for i := range f.Grants {
		g := &f.Grants[i]
		if f.Run != Active || !g.admits(f) {
			continue
		}
		w := 2
		if g.Digest != "" {
			w = 0
		} else if g.Counted {
			w = 1
		}
		if w < width || w == width && f.Caller.Identity == Weak && g.Weak {
			best, width = i, w
		}
	}
	return best
}

func (g *Grant) admits(f *Facts) bool {
	q := f.Request
	return g.State == GrantLive && g.ID != "" &&
		g.Run == f.Caller.Run && g.Epoch == f.Caller.Epoch &&
		slices.Contains(g.Tools, q.Tool) &&
		slices.Contains(g.Credentials, q.Credential) &&
		g.Version == q.Version &&
		(g.Digest == "" || g.Digest == q.Digest) &&
		g.Contract == f.Catalog.Contract &&
		(f.Caller.Identity != Weak || q.Effect == Read || g.Weak) &&
		(!g.Counted || g.Uses > 0) &&
		!f.Now.Past(g.Ends)
}

// eachUse is rung 9: must a person have said yes to this very call, even inside a grant?
func eachUse(f *Facts, g *Grant) bool {
	q := f.Request
	return q.Confirm != ConfirmNever || q.AlwaysAsk || q.UnresolvedEffect ||
		f.Caller.Identity == Weak && !g.Weak
}

// approved reports whether the reserved approval is for exactly this call.
func approved(f *Facts) bool {
	a, q := f.Approval, f.Request
	return a.Reserved && a.ID != "" &&
		a.Run == f.Caller.Run && a.Epoch == f.Caller.Epoch &&
		a.Digest == q.Digest && a.Version == q.Version &&
		(q.Confirm != ConfirmPasskey || a.Passkey) &&
		!f.Now.Past(a.Ends)
}
