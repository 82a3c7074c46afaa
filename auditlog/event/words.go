package event

import (
	"strconv"
	"strings"
)

// words joins the parts of a description. Empty parts fall out.
type words []string

// text adds one value that somebody else may have chosen: escaped, bounded, quoted where its end would be unclear.
func (w *words) text(s string) {
	if s == "" {
		return
	}
	s = clip(escape(s), 400)
	if strings.ContainsAny(s, ` "=`) {
		s = `"` + strings.ReplaceAll(s, `"`, `\"`) + `"`
	}
	*w = append(*w, s)
}

// pair adds name=value unless the value is empty.
func (w *words) pair(name, value string) {
	if value == "" {
		return
	}
	var v words
	v.text(value)
	*w = append(*w, name+"="+v[0])
}

func (w *words) count(name string, n int64) {
	if n != 0 {
		w.pair(name, strconv.FormatInt(n, 10))
	}
}

func (w *words) peer(p Peer) {
	w.text(p.Exe)
	w.count("pid", int64(p.ProcessID))
	w.pair("command", p.Command)
	w.pair("identity", p.Identity)
	w.pair("weak", strings.Join(p.Weak, ","))
	w.pair("digest", p.ExeDigest)
}

// by is whose word it was.
func (w *words) by(operator string, p Peer) {
	w.pair("operator", operator)
	w.peer(p)
}

func (w *words) call(c Call) {
	w.text(c.Tool)
	w.text(c.Target)
	w.text(c.Operation)
	w.pair("credential", c.Credential)
}

// note adds words of this program's own, as they are.
func (w *words) note(s string) { *w = append(*w, s) }
