package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// Classes of told rows that people look through.
const (
	ToldCall   = "call"   // the intent of a call
	ToldDenied = "denied" // a refused one
)

// Place is where a told row stands in time.
type Place struct {
	At  time.Time
	Seq uint64
}

// ToldQuery asks for told rows, newest first.
type ToldQuery struct {
	Run    string // empty: of all runs
	Class  string // ToldCall or ToldDenied; empty: both, or with Run every event
	Before Place  // zero: the newest
	Limit  int
}

// ToldPage returns at most q.Limit rows.
func (d *DB) ToldPage(ctx context.Context, q ToldQuery) ([]Told, error) {
	defer d.use()()
	where, args := []string{}, []any{}
	and := func(s string, a ...any) { where, args = append(where, s), append(args, a...) }
	switch {
	case q.Run != "":
		and("run = ?", q.Run)
	case q.Class == "":
		and("class <> ''")
	}
	if q.Class != "" {
		and("class = ? AND class <> ''", q.Class)
	}
	if !q.Before.At.IsZero() {
		seq, err := number(q.Before.Seq)
		if err != nil {
			return nil, fmt.Errorf("read told: %w", err)
		}
		and("(at, seq) < (?, ?)", stamp(q.Before.At), seq)
	}
	rows, err := collect(ctx, d.r, func(rs *sql.Rows) (x Told, err error) {
		var at int64
		err = rs.Scan(&x.Run, &x.Seq, &at, &x.Sealed, &x.Body, &x.Class)
		x.At = unstamp(at)
		return x, err
	}, `SELECT run, seq, at, sealed, body, class FROM told WHERE `+strings.Join(where, " AND ")+` ORDER BY at DESC, seq DESC LIMIT ?`, append(args, max(q.Limit, 0))...)
	if err != nil {
		return nil, fmt.Errorf("read told: %w", err)
	}
	return rows, nil
}

// ToldCount is how many rows of a class lie in one step of time.
type ToldCount struct {
	Step  int64 // from 0
	Class string
	N     int
}

// ToldCounts counts calls and denials from a time on, in steps; of one run or (empty) of all.
func (d *DB) ToldCounts(ctx context.Context, run string, from time.Time, step time.Duration) ([]ToldCount, error) {
	defer d.use()()
	of, args := "", []any{stamp(from), max(int64(step), 1), stamp(from)}
	if run != "" {
		of, args = " AND run = ?", append(args, run)
	}
	out, err := collect(ctx, d.r, func(rs *sql.Rows) (c ToldCount, err error) {
		err = rs.Scan(&c.Step, &c.Class, &c.N)
		return c, err
	}, `SELECT (at - ?) / ? AS step, class, count(*) FROM told WHERE class <> '' AND at >= ?`+of+` GROUP BY step, class`, args...)
	if err != nil {
		return nil, fmt.Errorf("count told: %w", err)
	}
	return out, nil
}

// Outcomes are the states and outcomes of actions by their ids; one without a row is left out.
func (d *DB) Outcomes(ctx context.Context, ids []string) (map[string]Action, error) {
	defer d.use()()
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	out := map[string]Action{}
	if len(ids) == 0 {
		return out, nil
	}
	rows, err := collect(ctx, d.r, func(rs *sql.Rows) (a Action, err error) {
		var finished int64
		err = rs.Scan(&a.ID, &a.State, &a.Outcome, &finished)
		a.Finished = unstamp(finished)
		return a, err
	}, `SELECT id, state, outcome, finished FROM actions WHERE id IN (?`+strings.Repeat(", ?", len(ids)-1)+`)`, args...)
	if err != nil {
		return nil, fmt.Errorf("read outcomes: %w", err)
	}
	for _, a := range rows {
		out[a.ID] = a
	}
	return out, nil
}
