package doctor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"sallyport/gateway/home"
)

// Folders looks at the gateway's folders of this user, those that are there, and at what decides where its sockets are.
func Folders(h home.Home, getenv func(string) string) []Finding {
	var all []Finding
	seen := map[string]bool{}
	for _, f := range []struct{ check, dir string }{{"folder.data", h.Data()}, {"folder.config", filepath.Dir(h.Settings())}, {"folder.runtime", h.Runtime()}, {"folder.pins", h.Pins()}} {
		if seen[f.dir] {
			continue
		}
		seen[f.dir] = true
		all = append(all, folder(f.check, f.dir))
	}
	return append(all, runtimeDir(h, getenv))
}

func folder(check, dir string) Finding {
	err := home.CheckPrivate(dir)
	switch {
	case err == nil:
		return Fine(check, "%s is private", dir)
	case errors.Is(err, fs.ErrNotExist):
		return Fine(check, "%s is made when it is needed", dir)
	case !errors.Is(err, home.ErrNotPrivate):
		return Fault(check, "look at the folder and those above it", "%v", err)
	}
	mend := "chmod 700 " + dir
	var st unix.Stat_t
	if unix.Lstat(dir, &st) == nil {
		switch {
		case uint32(st.Mode)&unix.S_IFMT == unix.S_IFLNK:
			mend = "put a folder of your own in the place of the link, or name the real one (SALLYPORT_HOME, XDG_DATA_HOME …)"
		case uint32(st.Mode)&unix.S_IFMT != unix.S_IFDIR:
			mend = "move " + dir + " away: a folder belongs there"
		case int(st.Uid) != os.Geteuid():
			mend = "it is another user's: move it away and `sp up` makes a new one, or give it back (chown) if what is in it is yours"
		}
	}
	return Fault(check, mend, "%v", err)
}

func runtimeDir(h home.Home, getenv func(string) string) Finding {
	const check = "XDG_RUNTIME_DIR"
	dir := getenv(check)
	switch {
	case getenv(home.EnvHome) != "" || runtime.GOOS == "darwin":
		return Fine(check, "not needed: sockets are in %s", h.Runtime())
	case dir == "" && filepath.Dir(h.Runtime()) == filepath.Dir(h.Data()):
		return Note(check, "log in by a login manager (pam_systemd), or leave it: it works", "not set, so sockets are in %s", h.Runtime())
	case dir == "":
		return Fine(check, "not set; sockets are in %s, where the login manager keeps them", h.Runtime())
	case home.CheckPrivate(dir) != nil:
		return Fault(check, "unset it, or name a folder that is yours alone (chmod 700)", "it is passed over: %v. Sockets are in %s; a program that sees another value looks there too, one with SALLYPORT_HOME does not", home.CheckPrivate(dir), h.Runtime())
	}
	return Fine(check, "%s", dir)
}
