package console

import (
	"embed"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
)

//go:embed assets
var embedded embed.FS

// reads are the routes that change nothing, and may be repeated. losses need no proof, and are each done once. Whatever
// else a tab may ask for carries its proof, which the door checks; what moves whole files, stops the gateway, or makes a
// vault or another tab is `sp`'s alone.
var (
	reads = []string{
		api.PathStatus, api.PathApprovalTable, api.PathRunList, api.PathRunShow, api.PathServerList, api.PathServerShow, api.PathGrantList, api.PathActionList, api.PathActionShow,
		api.PathIncident, api.PathCredentialList, api.PathCredentialShow, api.PathCredentialPresets, api.PathTargetList, api.PathTargetShow,
		api.PathSlotList, api.PathWitnessList, api.PathCheckpoint, api.PathPasskeyList,
		api.PathActivityList, api.PathActivityRate, api.PathRunTimeline, api.PathAuditVerify, api.PathAuditRead, api.PathSettingsShow,
	}
	losses = []string{
		api.PathLock, api.PathApprovalDeny, api.PathApprovalMute, api.PathSittingClose, api.PathRunRevoke, api.PathRunContain,
		api.PathEpochRevoke, api.PathGrantRevoke, api.PathActionCancel, api.PathCredentialTest,
		api.PathProofChallenge, // a nonce gives nothing
	}
	proved = []string{
		api.PathUnlock, api.PathApprovalGrant, api.PathApprovalUnmute, api.PathSittingOpen, api.PathRunTerminate, api.PathActionResolve,
		api.PathCredentialAdd, api.PathCredentialRotate, api.PathCredentialRebind, api.PathCredentialRemove,
		api.PathTargetAdd, api.PathTargetRemove,
		api.PathPasskeyAdd, api.PathPasskeyRemove,
	}
	// ticketed are for whoever has a ticket of `sp passkey add`, which is used up by them: a tab, or a page without one.
	ticketed = []string{api.PathPasskeyOpen, api.PathPasskeyEnrol}
)

// maxTicketed bounds the body of a ticketed request: whoever is on this machine may send one, and it is read whole before
// its ticket is looked at.
const maxTicketed = 256 << 10

// pages are the paths that show the one page; its script reads which.
var pages = []string{"/", "/pending", "/runs", "/runs/{id}", "/activity", "/credentials", "/hosts", "/log", "/settings"}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	assets, err := fs.Sub(embedded, "assets")
	if err != nil {
		panic("console: " + err.Error()) // the folder is part of the program
	}
	for _, p := range pages {
		if p == "/" {
			p = "/{$}"
		}
		mux.HandleFunc("GET "+p, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Clear-Site-Data", clearSite)
			http.ServeFileFS(w, r, assets, "page.html")
		})
	}
	mux.HandleFunc("GET /passkey", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Clear-Site-Data", clearSite)
		http.ServeFileFS(w, r, assets, "enrol.html")
	})
	for _, path := range ticketed {
		mux.Handle("POST "+api.OperatorPrefix+path, http.MaxBytesHandler(s.cfg.Ticketed, maxTicketed))
	}
	mux.Handle("GET /assets/", http.StripPrefix("/assets/", files(assets)))
	mux.HandleFunc("GET /assets/words.json", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, api.WordList()) })
	mux.HandleFunc("POST /open", s.claim)
	mux.HandleFunc("GET /events", s.live)
	for _, path := range slices.Concat(reads, losses, proved) {
		mux.Handle("POST "+api.OperatorPrefix+path, s.pass(slices.Contains(reads, path)))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if tabOf(r) == nil {
			refuse(w, "this needs a tab's session; open the console with `sp console`")
			return
		}
		answer(w, http.StatusNotFound, api.Fail("unknown_method", "the console has no such page or verb"))
	})
	return s.guard(mux)
}

// files serves embedded files and lists no folder.
func files(assets fs.FS) http.Handler {
	serve := http.FileServerFS(assets)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i, err := fs.Stat(assets, r.URL.Path); err != nil || i.IsDir() || strings.HasSuffix(r.URL.Path, ".html") {
			answer(w, http.StatusNotFound, api.Fail("not_found", "the console has no such file"))
			return
		}
		serve.ServeHTTP(w, r)
	})
}

func tabOf(r *http.Request) *tab {
	t, _ := r.Context().Value(tabKey{}).(*tab)
	return t
}

// claim spends the URL's token: from now on the page that showed it, and no other, has a session.
func (s *Server) claim(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	session, ok := s.tabs.claim(token)
	if !ok {
		refuse(w, "this link was used already, or its ten minutes are over; open the console anew with `sp console`")
		return
	}
	answer(w, http.StatusOK, map[string]string{"session": session})
}

// pass hands a request to the operators' door as its tab's. What changes something names itself, and is done once.
func (s *Server) pass(reading bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := tabOf(r)
		if t == nil {
			refuse(w, "this needs a tab's session; open the console with `sp console`")
			return
		}
		if id := r.Header.Get("Request-Id"); !reading && (len(id) < 16 || len(id) > 64 || !s.tabs.first(t, id)) {
			answer(w, http.StatusConflict, api.Fail("invalid_request", "the request was sent twice, or names itself by no Request-Id; it was not done again"))
			return
		}
		s.cfg.Door(t.id).ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.MarshalWrite(w, v)
}
