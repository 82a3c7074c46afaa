// Package browser drives a real headless Chromium, for tests of the console.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// Patience bounds every wait for the page: it costs nothing when the thing happens.
const Patience = 2 * time.Minute

// Tab is one tab of a browser of its own.
type Tab struct {
	Ctx context.Context // for chromedp's own actions and protocol commands
	t   testing.TB
	mu  sync.Mutex
	bad []string
}

// programs are the names a Chromium goes by.
var programs = []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"}

// Find is a Chromium's path. It skips the test where there is none, unless SALLYPORT_REAL=require.
func Find(t testing.TB) string {
	t.Helper()
	for _, p := range programs {
		if path, err := exec.LookPath(p); err == nil {
			return path
		}
	}
	if os.Getenv("SALLYPORT_REAL") == "require" {
		t.Fatal("chromium: it is not installed, and SALLYPORT_REAL=require")
	}
	t.Skip("chromium: it is not installed")
	return ""
}

// Start starts a browser with an empty profile, and ends it with the test.
func Start(t testing.TB) *Tab {
	t.Helper()
	path := Find(t)
	profile, err := os.MkdirTemp("", "sallyport-browser")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.NoSandbox,
		chromedp.Flag("headless", "new"), chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(Patience), chromedp.CombinedOutput(quiet{}))
	b := &Tab{t: t}
	tab, closeTab := chromedp.NewContext(ctx)
	b.Ctx = tab
	t.Cleanup(func() {
		closeTab()
		stop() // waits for the process
		os.RemoveAll(profile)
		for _, line := range b.Complaints() {
			t.Logf("the page said: %s", line)
		}
	})
	if err := chromedp.Do(tab); err != nil { // the browser lives as long as this context: no bound on it
		t.Fatalf("start chromium: %v", err)
	}
	said := chromedp.Console(tab)
	go func() { // ends with the tab
		for m, err := range said {
			if err != nil {
				return
			}
			// That an answer was no 200 is the page's to tell, and no fault of it.
			if k := string(m.Type); (k == "error" || k == "warning" || k == "exception") && !strings.HasPrefix(m.Text, "Failed to load resource") {
				b.mu.Lock()
				b.bad = append(b.bad, k+": "+m.Text)
				b.mu.Unlock()
			}
		}
	}()
	b.Do(chromedp.EmulateViewport(1280, 900))
	return b
}

// Complaints are the page's own errors so far, and what its security policy refused.
func (b *Tab) Complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.bad...)
}

// Do runs chromedp's actions, and fails the test if they do not come about.
func (b *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, Patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("browser: %v; the page reads:\n%s", err, b.text())
	}
}

// Open goes to a URL.
func (b *Tab) Open(url string) { b.t.Helper(); b.Do(chromedp.Navigate(url)) }

// Eval runs a JavaScript expression, waits for its promise, and returns its value.
func Eval[T any](b *Tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, Patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("browser: %s: %v; the page reads:\n%s", expression, err, b.text())
	}
	return v
}

// Until waits until an expression is true.
func (b *Tab) Until(what, expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, Patience)
	defer cancel()
	look := time.NewTicker(40 * time.Millisecond)
	defer look.Stop()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && ok {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			b.t.Fatalf("never came: %s (%v); the page reads:\n%s", what, err, b.text())
		}
	}
}

// named is an expression for the first button or link of a name below a CSS selector that can be pressed.
func named(below, name string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%q)].flatMap(x => [...x.querySelectorAll('button,a')]).find(x => x.textContent.trim() === %q && !x.disabled && x.checkVisibility())`, below, name)
}

// Press clicks the first button or link of a name below a CSS selector, once there is one that can be pressed.
func (b *Tab) Press(below, name string) {
	b.t.Helper()
	b.Until("button "+name+" below "+below, named(below, name))
	Eval[chromedp.Void](b, named(below, name)+".click()")
}

// Type puts text into the first field of a label below a CSS selector, as typing does.
func (b *Tab) Type(below, label, text string) {
	b.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll(%q)].flatMap(x => [...x.querySelectorAll('label')]).find(x => x.textContent.trim() === %q)?.control`, below, label)
	b.Until("field "+label, find)
	Eval[chromedp.Void](b, find+".focus()")
	b.Keys(text)
}

// Keys types keys, where the keyboard is.
func (b *Tab) Keys(keys string) { b.t.Helper(); b.Do(chromedp.KeyEvent(keys)) }

// Reads waits until the page's text holds all of words.
func (b *Tab) Reads(words ...string) {
	b.t.Helper()
	for _, w := range words {
		b.Until(fmt.Sprintf("the text %q", w), fmt.Sprintf("document.body.innerText.includes(%q)", w))
	}
}

// Screen makes the window so wide and high, and light or dark.
func (b *Tab) Screen(width, height int64, scheme string) {
	b.t.Helper()
	b.Do(chromedp.EmulateViewport(width, height))
	p := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(b.Ctx, emulation.SetEmulatedMedia, p); err != nil {
		b.t.Fatal(err)
	}
}

// Gallery writes pictures of the whole page, wide and narrow, light and dark, if SALLYPORT_SHOTS names a folder. Nothing may
// stand out to the right.
func (b *Tab) Gallery(name string) {
	b.t.Helper()
	dir := os.Getenv("SALLYPORT_SHOTS")
	if dir == "" {
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, form := range []struct {
			name       string
			wide, high int64
		}{{"wide", 1280, 900}, {"narrow", 390, 844}} {
			b.Screen(form.wide, form.high, scheme)
			if out := Eval[string](b, outside); out != "" {
				b.t.Errorf("%s, %s: stands out to the right: %s", name, form.name, out)
			}
			png, err := chromedp.Run(b.Ctx, chromedp.FullScreenshot(100))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name+"-"+form.name+"-"+scheme+".png"), png, 0o644)
			}
			if err != nil {
				b.t.Fatal(err)
			}
		}
	}
	b.Screen(1280, 900, "light")
}

// outside names the first thing that makes the page, or an open dialog, wider than it may be.
const outside = `[document.documentElement, ...document.querySelectorAll('dialog[open]')].filter((x) => x.scrollWidth > x.clientWidth)
	.map((x) => [...x.querySelectorAll('*')].find((y) => y.getBoundingClientRect().right > x.getBoundingClientRect().left + x.clientWidth + 1))
	.map((y) => y ? y.tagName + '.' + y.className + ' ' + y.textContent.slice(0, 80) : 'unknown').join(', ')`

// text is what the page reads, for a failure's message.
func (b *Tab) text() string {
	ctx, cancel := context.WithTimeout(b.Ctx, 10*time.Second)
	defer cancel()
	s, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body ? document.body.innerText : ''"))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return strings.TrimSpace(s)
}

// quiet drops the browser's own log.
type quiet struct{}

func (quiet) Write(p []byte) (int, error) { return len(p), nil }
