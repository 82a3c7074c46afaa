package gateway

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
)

// errNoLog: before init no log exists; calls are refused vault_absent and only counted.
var errNoLog = errors.New("append to audit log: there is none yet")

// logbook is the gateway's one hand on the audit log. The zero value has no log.
type logbook struct {
	w      atomic.Pointer[auditlog.Writer]
	absent atomic.Int64 // calls refused before a log existed
	gone   string       // why there is no usable log beside a vault; set at the start alone
	told   told         // what it took, for the rows that incident records are made from
}

// append makes entries durable, in one commit, and returns the last one's sequence.
func (l *logbook) append(ctx context.Context, e ...auditlog.Entry) (uint64, error) {
	seq, at, err := l.write(ctx, e...)
	if err == nil {
		l.told.keep(seq, at, e)
	}
	return seq, err
}

// write is append for whoever keeps the entries in rows himself; at is the commit's time.
func (l *logbook) write(ctx context.Context, e ...auditlog.Entry) (seq uint64, at time.Time, err error) {
	w := l.w.Load()
	if w == nil {
		return 0, at, errNoLog
	}
	// The caller's patience is no reason to leave a record half told: an append ends by itself.
	return w.AppendAt(context.WithoutCancel(ctx), e...)
}

// note records events that need no row, under one subject.
func (l *logbook) note(ctx context.Context, subject string, evs ...event.Event) error {
	_, err := l.append(ctx, notes(event.Subject(subject), evs)...)
	return err
}

func notes(subject [16]byte, evs []event.Event) []auditlog.Entry {
	out := make([]auditlog.Entry, len(evs))
	for i, e := range evs {
		out[i] = auditlog.Entry{Kind: auditlog.Note, Subject: subject, Body: event.Encode(e)}
	}
	return out
}

// losses are notes of authority that is lost: a full disk leaves them the space that it leaves to results.
func losses(subject [16]byte, evs []event.Event) []auditlog.Entry {
	out := notes(subject, evs)
	for i := range out {
		out[i].Reserved = true
	}
	return out
}

// head is the last durable commit; zero without a log.
func (l *logbook) head() auditlog.Head {
	if w := l.w.Load(); w != nil {
		return w.Head()
	}
	return auditlog.Head{}
}

func (l *logbook) close() error {
	if w := l.w.Swap(nil); w != nil {
		return w.Close()
	}
	return nil
}
