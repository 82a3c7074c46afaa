// Package release says which build this is.
package release

import (
	"runtime"
	"runtime/debug"

	"sallyport/cmd/internal/release/stamp"
)

// Unreleased is what a build calls itself that nobody numbered.
const Unreleased = stamp.Unreleased

// Build is one build of sp or spd.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`   // "" where the build does not know
	Modified bool   `json:"modified"` // built from files that are in no commit
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// This is the build that runs.
func This() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return from(stamp.Version, info)
}

func from(version string, info *debug.BuildInfo) Build {
	b := Build{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	if b.Version == "" {
		b.Version = info.Main.Version // by `go install`, or by the tag and commit of the clone
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = Unreleased
	}
	return b
}
