package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sallyport/gateway/api"
)

// A notification is off by default, a sealed setting, and says how many cards wait: nothing of what, to nobody's words.
func TestNotify(t *testing.T) {
	told := make(chan string, 8)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		told <- string(b)
	}))
	defer hook.Close()
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**")
	a := r.agent()
	ch := a.send("call", call0(up.URL+"/quiet", "GET"))
	r.yes(r.card(), "use")
	<-ch
	for _, bad := range []string{`["mail"]`, `["webhook http://hook.example/"]`, `"desktop"`} {
		if _, refused := r.apply("[settings]\nnotify = "+bad+"\n", false); refused != "invalid_request" {
			t.Errorf("%s: %q", bad, refused)
		}
	}
	if _, refused := r.apply("[settings]\nnotify = [\"webhook "+hook.URL+"/x\"]\n", false); refused != "" {
		t.Fatal(refused)
	}
	shown, err := r.ask1(api.PathSettingsShow, struct{}{}, nil)
	if err != nil || !strings.Contains(string(encode(shown)), strings.TrimPrefix(hook.URL, "http://")+"/…") || strings.Contains(string(encode(shown)), hook.URL+"/x") {
		t.Errorf("without a proof the settings show %s, %v", encode(shown), err)
	}
	ch = a.send("call", call0(up.URL+"/secret-path", "GET"))
	select {
	case got := <-told:
		if !strings.Contains(got, `"waiting":1`) || strings.Contains(got, "secret-path") || strings.Contains(got, "ledger") || strings.Contains(got, "127.0.0.1") {
			t.Errorf("told: %s", got)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing was told")
	}
	r.yes(r.card(), "use")
	<-ch
	r.stop()
	again := newRig(t, r.dir)
	again.unlock()
	again.agent().send("call", call0(up.URL+"/again", "GET"))
	select {
	case <-told:
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing was told after a restart")
	}
}
