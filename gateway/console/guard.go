package console

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"sallyport/gateway/api"
)

// Headers of every answer. Nothing is from elsewhere, nothing is inline, nobody frames the page, no worker outlives it and
// nothing is kept: a page of an earlier program on this port may have left a service worker, which the answer clears away.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"form-action 'none'; base-uri 'none'; frame-ancestors 'none'; worker-src 'none'; object-src 'none'; " +
		"require-trusted-types-for 'script'; trusted-types 'none'",
	"X-Frame-Options":              "DENY",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cache-Control":                "no-store",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Embedder-Policy": "require-corp",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Origin-Agent-Cluster":         "?1",
	"Permissions-Policy":           "camera=(), microphone=(), geolocation=(), display-capture=(), usb=(), serial=(), clipboard-read=()",
}

// clearSite goes with every page: cookies of other programs on localhost are theirs, so only this origin's storage goes,
// service workers with it.
const clearSite = `"storage"`

type tabKey struct{}

// guard lets only requests through that this console's own page can have made. Whoever speaks without a browser can forge
// every header: it lacks the token.
func (s *Server) guard(next http.Handler) http.Handler {
	origin := "http://" + s.on.Host()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for k, v := range headers {
			w.Header().Set(k, v)
		}
		switch {
		case r.Host != s.on.Host():
			refuse(w, "the console is "+origin+" and nothing else")
		case r.Method != http.MethodGet && r.Header.Get("Origin") != origin, r.Header.Get("Origin") != "" && r.Header.Get("Origin") != origin:
			refuse(w, "the request comes from another origin")
		case !sameSite(r):
			refuse(w, "the request was not made by the console's page")
		default:
			s.identified(next, w, r)
		}
	})
}

// identified finds out which tab speaks. A wrong token is refused wherever it is sent.
func (s *Server) identified(next http.Handler, w http.ResponseWriter, r *http.Request) {
	given := r.Header.Values("Authorization")
	if len(given) == 0 {
		next.ServeHTTP(w, r)
		return
	}
	token, ok := strings.CutPrefix(given[0], "Bearer ")
	t := s.tabs.of(token)
	if !ok || len(given) > 1 || t == nil && !s.tabs.waits(token) {
		refuse(w, "this tab's session has ended; open the console anew with `sp console`")
		return
	}
	if t != nil {
		r = r.WithContext(context.WithValue(r.Context(), tabKey{}, t))
	}
	next.ServeHTTP(w, r)
}

// sameSite reads what browsers say of a request's maker, and no page can change.
func sameSite(r *http.Request) bool {
	h := r.Header
	page := r.Method == http.MethodGet && h.Get("Sec-Fetch-Mode") == "navigate" && h.Get("Sec-Fetch-Dest") == "document"
	switch h.Get("Sec-Fetch-Site") {
	case "", "same-origin":
	case "none": // typed, or opened by another program
		if !page {
			return false
		}
	default: // a link elsewhere may lead to the page: it is empty without its token
		if !page || h.Get("Authorization") != "" {
			return false
		}
	}
	return h.Get("Service-Worker") == "" &&
		slices.Contains([]string{"", "empty", "document", "script", "style", "image"}, h.Get("Sec-Fetch-Dest"))
}

// refuse is 403, whatever the path.
func refuse(w http.ResponseWriter, why string) {
	answer(w, http.StatusForbidden, api.Fail("operator_refused", why))
}
