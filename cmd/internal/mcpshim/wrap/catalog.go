package wrap

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/cmd/internal/mcpshim/jsonline"
	"sallyport/gateway/api"
)

const (
	debounce   = 250 * time.Millisecond // between a server's list_changed and our tools/list
	pageLimit  = 1000
	fetchLimit = 30 * time.Second
)

// listed is what is known of the server's tools.
type listed struct {
	told     string           // the revision that the host was shown or last told to fetch
	pages    []jsontext.Value // of the list that the host is fetching
	cursor   string           // its next page's
	due      bool             // a fetch will start when the debounce is over
	fetching bool
	fetched  bool // the gateway knows the tools of the current epoch
	stale    bool // they changed while they were fetched
}

// changed takes the server's word that its tools changed. The host hears of it when we know what changed.
func (w *wrapper) changed(k *child) {
	if w.due || !k.greeted {
		return
	}
	w.due = true
	w.after(debounce, func() {
		w.due = false
		if w.kid == k {
			w.refetchMore(k)
		}
	})
}

// refetch fetches the tools of a process that the gateway knows nothing of yet.
func (w *wrapper) refetch(k *child) {
	w.fetched, w.stale = false, false
	w.fetch(k)
}

// refetchMore fetches them again.
func (w *wrapper) refetchMore(k *child) {
	if w.fetching {
		w.stale = true
		return
	}
	w.fetch(k)
}

func (w *wrapper) fetch(k *child) {
	w.fetching = true
	epoch := k.epoch
	ended := false
	end := func() {
		if ended {
			return
		}
		ended = true
		if w.kid == k && k.epoch == epoch {
			w.fetchEnded(k)
		}
	}
	w.after(fetchLimit, end)
	w.page(k, epoch, nil, "", end)
}

// page asks for one page, and for the next one when it is here.
func (w *wrapper) page(k *child, epoch string, pages []jsontext.Value, cursor string, end func()) {
	id := w.ownID()
	r := &request{lost: end}
	r.done = func(a message) {
		var p struct {
			Next string         `json:"nextCursor"`
			Rest jsontext.Value `json:",embed"`
		}
		switch {
		case w.kid != k || k.epoch != epoch:
			end()
		case a.fault != nil && isCode(a.fault, jsonline.CodeMethod): // a server without tools
			w.handOver(k, epoch, []jsontext.Value{jsontext.Value(`{"tools":[]}`)}, end)
		case a.result == nil || json.Unmarshal(a.result, &p) != nil:
			w.say("sp mcp: the server does not list its tools: %s", quote(string(a.fault)))
			end()
		case p.Next != "" && len(pages) < pageLimit:
			w.page(k, epoch, append(pages, a.result), p.Next, end)
		default:
			w.handOver(k, epoch, append(pages, a.result), end)
		}
	}
	params := struct {
		Meta   jsontext.Value `json:"_meta,omitzero"`
		Cursor string         `json:"cursor,omitempty"`
	}{w.meta(), cursor}
	p, err := json.Marshal(params)
	if err != nil {
		end()
		return
	}
	if !w.give(k, ownKey(id), wire(jsonline.Wire{ID: id, Method: "tools/list", Params: p}), r) {
		end()
	}
}

// meta is what requests of our own carry in the modern revision: what the host said of itself, without what names one request.
func (w *wrapper) meta() jsontext.Value {
	if !w.modern() {
		return nil
	}
	m, err := read(w.ask)
	if err != nil {
		return nil
	}
	var p struct {
		Meta map[string]jsontext.Value `json:"_meta"`
	}
	if json.Unmarshal(m.params, &p) != nil || p.Meta == nil {
		return nil
	}
	delete(p.Meta, "progressToken")
	v, err := json.Marshal(p.Meta, json.Deterministic(true))
	if err != nil {
		return nil
	}
	return v
}

// handOver gives a whole list to the gateway, and tells the host if it is another one than the host has.
func (w *wrapper) handOver(k *child, epoch string, pages []jsontext.Value, end func()) {
	link := w.link
	if link == nil {
		end()
		return
	}
	go func() {
		st, err := link.Catalog(w.ctx, api.ServerCatalog{ExecutionEpoch: epoch, Pages: pages})
		w.post(func() {
			if err != nil {
				w.say("sp mcp: %v", err)
			} else if w.kid == k && k.epoch == epoch {
				w.fetched = true
				w.announce(st)
			}
			end()
		})
	}()
}

// announce tells the host once of each revision that it has not been shown.
func (w *wrapper) announce(st api.ServerState) {
	before := w.told
	if w.told = st.Catalog; before == "" || before == st.Catalog { // "": it has not asked for one yet
		return
	}
	for _, c := range st.Changed {
		w.say("tools changed: %s", c)
	}
	w.tellListeners()
}

// fetchEnded lets the calls go that came before the tools were known. Where they changed meanwhile and are fetched again, no
// call waits for that as well: a server may say so each time that it is asked.
func (w *wrapper) fetchEnded(k *child) {
	w.fetching = false
	if w.stale {
		w.stale = false
		w.fetch(k)
	}
	w.letGo(&w.early)
}

// hostListed passes an answer to the host's own tools/list on. Of the last page the gateway hears first: a call that follows
// on it must find the gateway knowing what the host was shown.
func (w *wrapper) hostListed(k *child, m, a message) {
	var q struct {
		Cursor string `json:"cursor"`
	}
	json.Unmarshal(m.params, &q) // a first page has no cursor, and may have no params
	var p struct {
		Next string `json:"nextCursor"`
	}
	whole := false
	switch {
	case a.result == nil || json.Unmarshal(a.result, &p) != nil:
	case q.Cursor == "":
		w.pages, w.cursor, whole = []jsontext.Value{a.result}, p.Next, p.Next == ""
	case q.Cursor == w.cursor && len(w.pages) < pageLimit:
		w.pages, w.cursor, whole = append(w.pages, a.result), p.Next, p.Next == ""
	}
	link, pages, epoch := w.link, w.pages, k.epoch
	if !whole || link == nil {
		w.reply(m, a.line)
		return
	}
	w.pages, w.cursor = nil, ""
	go func() {
		st, err := link.Catalog(w.ctx, api.ServerCatalog{ExecutionEpoch: epoch, Pages: pages, Served: true})
		w.post(func() {
			if err == nil {
				w.told = st.Catalog
				if w.kid == k && k.epoch == epoch {
					w.fetched = true
				}
			}
			w.reply(m, a.line)
		})
	}()
}

// isCode says that a JSON-RPC error has this code.
func isCode(fault jsontext.Value, code int64) bool {
	var e struct {
		Code int64 `json:"code"`
	}
	return json.Unmarshal(fault, &e) == nil && e.Code == code
}
