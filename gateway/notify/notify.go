// Package notify tells people that something waits for them, or that a supervised server's process was replaced unexpectedly,
// and nothing of what: how many, never a target, a credential, a server's label, an agent's word or a link that gives
// anything. Whoever reads a notification has learned that somebody works.
//
// It is off until a setting names ways to tell:
//
//	desktop          the session's notification service (org.freedesktop.Notifications 1.2; macOS: osascript)
//	ntfy URL         a POST of the text to an ntfy topic (docs.ntfy.sh/publish)
//	webhook URL      a POST of {"text":"…","waiting":N}, or "replaced":N beside a waiting of 0
//
// URLs are https, or http on this machine.
package notify

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"
)

// way is one way to tell. Only one call at a time.
type way interface {
	tell(ctx context.Context, n note) error
}

// note is what is told. The zero value says that no card waits any more.
type note struct {
	waiting  int // cards
	replaced int // servers' processes since the last such note: what waits is not told in the same one
}

const (
	patience  = 10 * time.Second // for one message on one way
	gap       = 10 * time.Second // between messages: what comes meanwhile is told with the next one
	look      = time.Second      // while something was told, how often it is looked whether it still waits
	waysLimit = 8
)

// Check tells what is wrong with the ways of a setting.
func Check(all []string) error {
	if len(all) > waysLimit {
		return fmt.Errorf("at most %d ways", waysLimit)
	}
	for _, s := range all {
		if _, err := parse(s); err != nil {
			return err
		}
	}
	return nil
}

// Shown is a way as it is shown: of a URL no more than its host. The rest of it may be all that guards a topic.
func Shown(s string) string {
	kind, at, ok := strings.Cut(s, " ")
	if !ok {
		return s
	}
	u, err := url.Parse(at)
	if err != nil {
		return kind + " …"
	}
	return kind + " " + u.Scheme + "://" + u.Host + "/…"
}

var errForm = errors.New(`"desktop", "ntfy URL" or "webhook URL"`)

func parse(s string) (way, error) {
	if s == "desktop" {
		return &desktop{}, nil
	}
	kind, at, ok := strings.Cut(s, " ")
	if !ok || kind != "ntfy" && kind != "webhook" {
		return nil, errForm
	}
	u, err := url.Parse(at)
	switch {
	case err != nil || u.Host == "" || u.Fragment != "" || u.Opaque != "" || strings.ContainsAny(at, " \t"):
		return nil, fmt.Errorf("%s: a URL, as in https://host/path", kind)
	case u.Scheme == "http" && !here(u.Hostname()), u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%s: https, or http on this machine", kind)
	case kind == "ntfy" && strings.Trim(u.Path, "/") == "":
		return nil, errors.New("ntfy: the URL names no topic")
	}
	return &post{url: u.String(), ntfy: kind == "ntfy", client: newClient()}, nil
}

// here tells an address of this machine.
func here(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// Teller tells by every way that is set. Its goroutine is Run.
type Teller struct {
	waiting func() int
	fault   func(way string, err error)

	mu    sync.Mutex
	ways  map[string]way
	news  int // cards laid so far
	swaps int // replacements so far
	woken chan struct{}
}

// New makes one that knows no way yet. waiting says how many cards wait; fault is told what could not be told, once
// until it works again.
func New(waiting func() int, fault func(way string, err error)) *Teller {
	return &Teller{waiting: waiting, fault: fault, ways: map[string]way{}, woken: make(chan struct{}, 1)}
}

// Set takes the ways of a setting that Check let through; those that stay keep what they hold.
func (t *Teller) Set(all []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.ways
	t.ways = map[string]way{}
	for _, s := range all {
		if w, err := parse(s); err == nil {
			if old := was[s]; old != nil {
				w = old
			}
			t.ways[s] = w
		}
	}
}

// Laid says that another card waits. It never blocks.
func (t *Teller) Laid() { t.more(&t.news) }

// Replaced says that a supervised server's process was replaced, and nobody had said that it would be. It never blocks.
func (t *Teller) Replaced() { t.more(&t.swaps) }

func (t *Teller) more(n *int) {
	t.mu.Lock()
	*n++
	t.mu.Unlock()
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

// Run tells until ctx ends.
func (t *Teller) Run(ctx context.Context) {
	seen, told := 0, 0 // cards laid when last told; how many waited then
	swapped := 0       // replacements told
	failing := map[string]bool{}
	for {
		var again <-chan time.Time
		if told > 0 {
			again = time.After(look)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.woken:
		case <-again:
		}
		t.mu.Lock()
		news, swaps := t.news, t.swaps
		t.mu.Unlock()
		n, quiet := t.waiting(), true
		if swaps > swapped {
			t.tell(ctx, note{replaced: swaps - swapped}, failing)
			swapped, quiet = swaps, false
		}
		switch {
		case n > 0 && news > seen:
			seen, told, quiet = news, n, false
			t.tell(ctx, note{waiting: n}, failing)
		case n == 0 && told > 0:
			told = 0
			t.tell(ctx, note{}, failing)
		}
		if quiet {
			continue
		}
		select { // further ones are told together
		case <-ctx.Done():
			return
		case <-time.After(gap):
		}
	}
}

// tell uses all ways at once.
func (t *Teller) tell(ctx context.Context, n note, failing map[string]bool) {
	t.mu.Lock()
	ways := make(map[string]way, len(t.ways))
	for s, w := range t.ways {
		ways[s] = w
	}
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for s, w := range ways {
		all.Go(func() {
			err := w.tell(ctx, n)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && !failing[s] && ctx.Err() != context.Canceled {
				kind, _, _ := strings.Cut(s, " ") // a topic's name may be all that guards it
				t.fault(kind, err)
			}
			failing[s] = err != nil
		})
	}
	all.Wait()
}

const title = "Sallyport"

// text is all that is ever told.
func (n note) text() string {
	switch {
	case n.replaced == 1:
		return "A server's process was replaced unexpectedly. See `sp server ls`, or the console."
	case n.replaced > 1:
		return fmt.Sprintf("Servers' processes were replaced unexpectedly, %d times. See `sp server ls`, or the console.", n.replaced)
	case n.waiting == 1:
		return "An approval waits. See `sp approvals`, or the console."
	}
	return fmt.Sprintf("%d approvals wait. See `sp approvals`, or the console.", n.waiting)
}
