package release

import (
	"runtime/debug"
	"testing"
)

func TestBuild(t *testing.T) {
	clone := &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}}
	tagged := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}
	for _, c := range []struct {
		linked string
		info   *debug.BuildInfo
		want   string
	}{{"", &debug.BuildInfo{}, Unreleased}, {"", clone, Unreleased}, {"", tagged, "v1.2.3"}, {"1.3.0", tagged, "1.3.0"}} {
		if b := from(c.linked, c.info); b.Version != c.want || b.Go == "" || b.OS == "" || b.Arch == "" {
			t.Errorf("%q %+v: %+v, want %s", c.linked, c.info.Main, b, c.want)
		}
	}
	if b := from("", clone); b.Commit != "abc" || !b.Modified {
		t.Errorf("%+v", b)
	}
}
