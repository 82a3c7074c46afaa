package notify

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
)

func TestCheck(t *testing.T) {
	for s, ok := range map[string]bool{
		"desktop": true, "ntfy https://ntfy.example/topic": true, "webhook https://hook.example/": true, "webhook http://127.0.0.1:8080/x": true,
		"webhook http://[::1]:8080/x": true, "webhook http://localhost:1/": true, "ntfy http://127.0.0.1/t": true,
		"": false, "mail me": false, "desktop now": false, "ntfy": false, "ntfy ": false, "ntfy https://ntfy.example": false, "ntfy https://ntfy.example/": false,
		"webhook http://hook.example/": false, "webhook ftp://hook.example/": false, "webhook https://": false, "webhook hook.example": false, "webhook https://a b/": false,
		"webhook  https://hook.example/": false, "webhook javascript:alert(1)": false, "webhook https://hook.example/#x": false, "webhook http://127.0.0.1.example/": false,
	} {
		if err := Check([]string{s}); (err == nil) != ok {
			t.Errorf("%q: %v", s, err)
		}
	}
	if Check(slices.Repeat([]string{"desktop"}, waysLimit+1)) == nil {
		t.Error("there is no limit")
	}
}

// fake is a way that keeps what it is told.
type fake struct {
	mu   sync.Mutex
	told []int // cards, or replacements as negative ones
	err  error
}

func (f *fake) tell(_ context.Context, n note) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, n.waiting-n.replaced)
	return f.err
}

// Each time something new waits it is told, many at once as one; that nothing waits is told once; what fails, once.
func TestTeller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waiting, faults := 0, 0
		var mu sync.Mutex
		count := func() int { mu.Lock(); defer mu.Unlock(); return waiting }
		set := func(n int) { mu.Lock(); defer mu.Unlock(); waiting = n }
		x := New(count, func(string, error) { mu.Lock(); defer mu.Unlock(); faults++ })
		f := &fake{}
		x.ways["fake"] = f
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { x.Run(ctx); close(done) }()
		want := func(what string, told ...int) {
			t.Helper()
			synctest.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			if !slices.Equal(f.told, told) {
				t.Fatalf("%s: told %v, want %v", what, f.told, told)
			}
		}
		set(1)
		x.Laid()
		want("the first", 1)
		for n := 2; n <= 5; n++ {
			set(n)
			x.Laid()
		}
		want("soon after", 1)
		time.Sleep(gap + time.Millisecond)
		want("together", 1, 5)
		time.Sleep(time.Hour)
		want("nothing new", 1, 5)
		set(4)
		time.Sleep(time.Minute)
		want("fewer", 1, 5)
		x.Laid() // one was answered, another came
		set(5)
		want("another", 1, 5, 5)
		set(0)
		time.Sleep(gap + 2*look)
		want("none", 1, 5, 5, 0)
		x.Laid() // answered before it could be told
		time.Sleep(time.Minute)
		want("gone", 1, 5, 5, 0)
		x.Replaced()
		want("a replacement", 1, 5, 5, 0, -1)
		x.Replaced()
		time.Sleep(gap + time.Millisecond)
		want("a second one, soon after", 1, 5, 5, 0, -1, -1)
		time.Sleep(time.Hour)
		want("no third", 1, 5, 5, 0, -1, -1)
		f.mu.Lock()
		f.err = errors.New("no")
		f.mu.Unlock()
		for range 3 {
			set(1)
			x.Laid()
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		if faults != 1 {
			t.Errorf("%d faults told", faults)
		}
		cancel()
		<-done
	})
}

// A way that stays keeps its state when the setting changes.
func TestSet(t *testing.T) {
	x := New(func() int { return 0 }, nil)
	x.Set([]string{"desktop", "webhook https://hook.example/"})
	was := x.ways["desktop"]
	x.Set([]string{"desktop", "broken"})
	if len(x.ways) != 1 || x.ways["desktop"] != was {
		t.Errorf("%v", x.ways)
	}
	x.Set(nil)
	if len(x.ways) != 0 {
		t.Error("ways are left")
	}
}

// What is posted is the count and nothing else, and no redirect is followed.
func TestPost(t *testing.T) {
	type got struct{ body, kind, title string }
	seen := make(chan got, 8)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		seen <- got{string(b), r.Header.Get("Content-Type"), r.Header.Get("Title")}
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case "/busy":
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer srv.Close()
	send := func(s string, n note) error {
		w, err := parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return w.tell(t.Context(), n)
	}
	if err := send("webhook "+srv.URL+"/hook", note{waiting: 3}); err != nil {
		t.Fatal(err)
	}
	g := <-seen
	var doc map[string]any
	if err := json.Unmarshal([]byte(g.body), &doc); err != nil || len(doc) != 2 || doc["waiting"] != 3.0 || !strings.HasPrefix(doc["text"].(string), "3 approvals wait") || g.kind != "application/json" {
		t.Errorf("%+v", g)
	}
	if err := send("webhook "+srv.URL+"/hook", note{replaced: 1}); err != nil {
		t.Fatal(err)
	}
	if g := <-seen; !strings.Contains(g.body, `"waiting":0,"replaced":1`) || !strings.Contains(g.body, "was replaced unexpectedly") {
		t.Errorf("%+v", g)
	}
	if err := send("ntfy "+srv.URL+"/topic", note{waiting: 1}); err != nil {
		t.Fatal(err)
	}
	if g := <-seen; g.body != (note{waiting: 1}).text() || g.title != "Sallyport" {
		t.Errorf("%+v", g)
	}
	if err := send("webhook "+srv.URL+"/moved", note{waiting: 1}); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("a redirect: %v", err)
	}
	<-seen
	if err := send("ntfy "+srv.URL+"/busy", note{waiting: 1}); err == nil || !strings.Contains(err.Error(), "429") {
		t.Errorf("a refusal: %v", err)
	}
	<-seen
	if err := send("webhook "+srv.URL+"/hook", note{waiting: 0}); err != nil || len(seen) != 0 {
		t.Errorf("nothing waits: %v, %d posts", err, len(seen))
	}
	secret := "webhook http://127.0.0.1:1/secret-topic"
	if err := send(secret, note{waiting: 1}); err == nil || strings.Contains(err.Error(), "secret-topic") {
		t.Errorf("an error names the topic: %v", err)
	}
}

// Of a URL its host is shown, and nothing that a service could take for a key.
func TestShown(t *testing.T) {
	for s, want := range map[string]string{
		"desktop": "desktop", "ntfy https://ntfy.example/long-topic": "ntfy https://ntfy.example/…",
		"webhook https://user:secret@hooks.example:8443/a?token=b": "webhook https://hooks.example:8443/…",
	} {
		if got := Shown(s); got != want {
			t.Errorf("%s is shown as %s", s, got)
		}
	}
}
