package incident

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/auditlog/event"
)

// maxDifferences bounds what is told; one more line says how many were left out.
const maxDifferences = 100

// Differences tells every way in which the records made from the rows differ from those made from the log, by process
// and line. What was laid beside them is not compared.
func Differences(rows, log []Record) []string {
	var out []string
	have := byName(rows)
	for _, r := range log {
		mine, ok := have[name(r)]
		if !ok {
			out = append(out, fmt.Sprintf("process %s: the log knows it, the rows do not", name(r)))
			continue
		}
		delete(have, name(r))
		out = append(out, differ(mine, r)...)
	}
	for _, r := range rows {
		if _, left := have[name(r)]; left {
			out = append(out, fmt.Sprintf("process %s: the rows know it, the log does not", name(r)))
		}
	}
	if over := len(out) - maxDifferences; over > 0 {
		out = append(out[:maxDifferences], fmt.Sprintf("%d more", over))
	}
	return out
}

func byName(rs []Record) map[string]Record {
	out := map[string]Record{}
	for _, r := range rs {
		out[name(r)] = r
	}
	return out
}

func name(r Record) string {
	if r.Server == nil {
		return fmt.Sprintf("%d (client)", r.Client.ProcessID)
	}
	return fmt.Sprintf("%d (%s)", r.Server.ProcessID, r.Epoch)
}

// differ compares two records of one process, line by line.
func differ(rows, log Record) (out []string) {
	a, b := leaves(rows), leaves(log)
	var lines []string
	for k := range a {
		lines = append(lines, k)
	}
	for k := range b {
		if _, both := a[k]; !both {
			lines = append(lines, k)
		}
	}
	slices.Sort(lines)
	for _, k := range lines {
		if a[k] != b[k] {
			out = append(out, fmt.Sprintf("process %s, %s: the rows say %s, the log says %s", name(log), k, or(a[k], "nothing"), or(b[k], "nothing")))
		}
	}
	return out
}

// leaves are a record's values by their place, without what was laid beside it or follows from that. What is listed is
// placed by its id: one call more or less is one difference.
func leaves(r Record) map[string]string {
	lists := struct {
		Calls   map[string]Call      `json:"calls"`
		Denied  map[string]Denial    `json:"denied"`
		Open    map[string]Open      `json:"unresolved"`
		Grants  map[string]Authority `json:"authorisedBy"`
		Sources map[string][]uint64  `json:"sources"`
	}{map[string]Call{}, map[string]Denial{}, map[string]Open{}, map[string]Authority{}, map[string][]uint64{}}
	for _, c := range r.Calls {
		lists.Calls[c.Action] = c
	}
	for _, d := range r.Denied {
		lists.Denied[fmt.Sprint("record ", d.Seq)] = d
	}
	for _, o := range r.Unresolved {
		lists.Open[o.Action] = o
	}
	for _, g := range r.AuthorisedBy {
		lists.Grants[g.Grant] = g
	}
	for _, s := range r.Sources {
		lists.Sources[s.Line] = s.Seq
	}
	r.Surroundings, r.FollowUp, r.ObservedAt = Surroundings{}, nil, time.Time{}
	r.Calls, r.Denied, r.Unresolved, r.AuthorisedBy, r.Sources = nil, nil, nil, nil, nil
	out := map[string]string{}
	flatten(out, r)
	flatten(out, lists)
	return out
}

// flatten adds v's JSON values by their place.
func flatten(out map[string]string, v any) {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("compare records: %v", err)) // they are structs of this package
	}
	d := jsontext.NewDecoder(bytes.NewReader(b))
	for {
		t, err := d.ReadToken()
		if err != nil {
			return
		}
		switch t.Kind() {
		case jsontext.KindBeginObject, jsontext.KindBeginArray, jsontext.KindEndObject, jsontext.KindEndArray, jsontext.KindNull:
			continue
		}
		if k, n := d.StackIndex(d.StackDepth()); k == jsontext.KindBeginObject && n%2 == 1 {
			continue // a name
		}
		if s := t.String(); s != "" {
			out[strings.ReplaceAll(strings.TrimPrefix(string(d.StackPointer()), "/"), "/", " ")] = s
		}
	}
}

// Concerns says whether a record of run is made from e.
func Concerns(run string, e event.Event) bool {
	switch e := e.(type) {
	case event.GatewayStarted, event.GatewayStopped, event.VaultLocked, event.VaultUnlocked, event.VaultQuarantined, event.VaultReleased,
		event.ToolUnresolved, event.ToolResolved:
		return true
	default:
		return runOf(e) == run
	}
}

// runOf is the run an event names.
func runOf(e event.Event) string {
	var of struct {
		Run string `json:"run"`
	}
	if json.Unmarshal(event.Encode(e), &of) != nil {
		return ""
	}
	return of.Run
}

// Apart tells where the events of run differ themselves: one of rows and log has an event that the other has not, or what
// a row says is not what the log says. A row may say less: after a crash it is rebuilt from what the gateway had sealed to
// itself.
func Apart(run string, rows, log []event.Item) (out []string) {
	kept := map[uint64]event.Item{}
	for _, it := range rows {
		kept[it.Seq] = it
	}
	for _, it := range log {
		if !Concerns(run, it.Event) {
			continue
		}
		row, ok := kept[it.Seq]
		delete(kept, it.Seq)
		kind := event.Type(it.Event)
		switch {
		case !ok && runOf(it.Event) == run:
			out = append(out, fmt.Sprintf("record %d (%s): the log has it, the rows do not", it.Seq, kind))
		case !ok:
		case event.Type(row.Event) != kind:
			out = append(out, fmt.Sprintf("record %d: the rows say %s, the log says %s", it.Seq, event.Type(row.Event), kind))
		case !row.Time.Equal(it.Time):
			out = append(out, fmt.Sprintf("record %d (%s): the rows say %s, the log says %s", it.Seq, kind, row.Time.UTC().Format(time.RFC3339Nano), it.Time.UTC().Format(time.RFC3339Nano)))
		default:
			out = append(out, otherwise(row, it)...)
		}
	}
	for _, it := range rows {
		if _, left := kept[it.Seq]; left && runOf(it.Event) == run {
			out = append(out, fmt.Sprintf("record %d (%s): the rows have it, the log does not", it.Seq, event.Type(it.Event)))
		}
	}
	if over := len(out) - maxDifferences; over > 0 {
		out = append(out[:maxDifferences], fmt.Sprintf("%d more", over))
	}
	return out
}

// otherwise tells what a row says of an event that the log does not.
func otherwise(row, log event.Item) (out []string) {
	a, b := map[string]string{}, map[string]string{}
	flatten(a, row.Event)
	flatten(b, log.Event)
	for _, k := range slices.Sorted(maps.Keys(a)) {
		if a[k] != b[k] {
			out = append(out, fmt.Sprintf("record %d (%s), %s: the rows say %s, the log says %s", log.Seq, event.Type(log.Event), k, a[k], or(b[k], "nothing")))
		}
	}
	return out
}
