// Package service has what a service manager is told about the gateway, and tells it: a systemd unit and a launchd
// property list for a gateway of the user's own, and for one under a user of its own that serves another.
package service

import (
	"embed"
	"fmt"
	"io"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"text/template"
)

//go:embed sallyport.service sallyport.plist sallyport-user.service sallyport-user.plist
var files embed.FS

// DefaultProgram is the spd that a service file names where nobody says otherwise.
const DefaultProgram = "/usr/local/bin/spd"

// Served is whom the gateway serves, and what is started for it. Without a User it is a gateway of the user's own.
type Served struct {
	User, Group string
	UID, GID    int
	Program     string   // spd's absolute path; "": DefaultProgram
	Environment []string // NAME=VALUE, of a user's own gateway
}

var (
	// word is what a user's or a group's name may be made of: it becomes a part of a
	// unit and of a property list.
	word = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)
	// plain is a path that means the same in a unit, in a property list and to a shell.
	plain = regexp.MustCompile(`^/[A-Za-z0-9_./+@-]*$`)
)

// Lookup finds the user named name; "": who is asking. Root is served by nobody.
func Lookup(name string) (Served, error) {
	u, err := user.Current()
	if name != "" {
		u, err = user.Lookup(name)
	}
	if err != nil {
		return Served{}, fmt.Errorf("look up user: %w", err)
	}
	g, err := user.LookupGroupId(u.Gid)
	if err != nil {
		return Served{}, fmt.Errorf("look up group: %w", err)
	}
	s := Served{User: u.Username, Group: g.Name}
	if s.UID, err = strconv.Atoi(u.Uid); err != nil {
		return Served{}, fmt.Errorf("look up user: %w", err)
	}
	if s.GID, err = strconv.Atoi(u.Gid); err != nil {
		return Served{}, fmt.Errorf("look up user: %w", err)
	}
	return s, s.check()
}

func (s Served) check() error {
	switch {
	case s.Program != "" && !plain.MatchString(s.Program):
		return fmt.Errorf("the path %q can't stand in a service file: put spd where the path is made of letters, digits and ./_+@-", s.Program)
	case s.User == "" && s.UID == 0 && s.Group == "":
		return s.checkEnvironment()
	case s.UID == 0:
		return fmt.Errorf("%s is root: no gateway is kept from root; name the user with --user", s.User)
	case !word.MatchString(s.User) || !word.MatchString(s.Group):
		return fmt.Errorf("the names %q and %q can't stand in a service file", s.User, s.Group)
	}
	return nil
}

func (s Served) checkEnvironment() error {
	for _, kv := range s.Environment {
		if name, path, _ := strings.Cut(kv, "="); !word.MatchString(name) || !plain.MatchString(path) {
			return fmt.Errorf("%s=%q can't stand in a service file", name, path)
		}
	}
	return nil
}

// own says that it is a gateway of the user's own.
func (s Served) own() bool { return s.User == "" }

// Systemd writes the unit file.
func Systemd(w io.Writer, s Served) error {
	if s.own() {
		return write(w, "sallyport-user.service", s)
	}
	return write(w, "sallyport.service", s)
}

// Launchd writes the property list.
func Launchd(w io.Writer, s Served) error {
	if s.own() {
		return write(w, "sallyport-user.plist", s)
	}
	return write(w, "sallyport.plist", s)
}

func write(w io.Writer, name string, s Served) error {
	if err := s.check(); err != nil {
		return err
	}
	if s.Program == "" {
		s.Program = DefaultProgram
	}
	halves := template.FuncMap{
		"name":  func(kv string) string { name, _, _ := strings.Cut(kv, "="); return name },
		"value": func(kv string) string { _, value, _ := strings.Cut(kv, "="); return value },
	}
	t, err := template.New(name).Funcs(halves).Option("missingkey=error").ParseFS(files, name)
	if err == nil {
		err = t.Execute(w, s)
	}
	if err != nil {
		return fmt.Errorf("write service file: %w", err)
	}
	return nil
}
