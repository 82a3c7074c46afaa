package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// AxeSource is axe-core's program, from the node_modules whose .bin is in PATH, or of this folder. It skips the test where
// there is none, unless SALLYPORT_REAL=require.
func AxeSource(t testing.TB) string {
	t.Helper()
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.Base(dir) != ".bin" {
			continue
		}
		if b, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "axe-core", "axe.min.js")); err == nil {
			return string(b)
		}
	}
	if os.Getenv("SALLYPORT_REAL") == "require" {
		t.Fatal("axe-core: no node_modules/.bin in PATH has it, and SALLYPORT_REAL=require")
	}
	t.Skip("axe-core: no node_modules/.bin in PATH has it")
	return ""
}

// Axe are axe-core's serious and critical findings on the page as it is.
func (b *Tab) Axe(source string) []string {
	b.t.Helper()
	Eval[chromedp.Void](b, source)
	found := Eval[string](b, `axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical')
		.flatMap((v) => v.nodes.map((n) => v.id + ': ' + n.html.slice(0, 160) + ' ' + (n.failureSummary ?? '').replace(/\s+/g, ' ').slice(0, 240))).join('\n'))`)
	if found == "" {
		return nil
	}
	return strings.Split(found, "\n")
}
