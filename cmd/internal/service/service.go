// Package service has what a service manager is told about a gateway under a user
// of its own: a systemd unit and a launchd property list, as templates.
package service

import (
	_ "embed"
	"fmt"
	"io"
	"os/user"
	"regexp"
	"strconv"
	"text/template"
)

//go:embed sallyport.service
var systemd string

//go:embed sallyport.plist
var launchd string

// Served is whom the gateway serves.
type Served struct {
	User, Group string
	UID, GID    int
}

// word is what a user's or a group's name may be made of: it becomes a part of a
// unit and of a property list.
var word = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)

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
	case s.UID == 0:
		return fmt.Errorf("%s is root: no gateway is kept from root; name the user with --user", s.User)
	case !word.MatchString(s.User) || !word.MatchString(s.Group):
		return fmt.Errorf("the names %q and %q can't stand in a service file", s.User, s.Group)
	}
	return nil
}

// Systemd writes the unit file.
func Systemd(w io.Writer, s Served) error { return write(w, "systemd", systemd, s) }

// Launchd writes the property list.
func Launchd(w io.Writer, s Served) error { return write(w, "launchd", launchd, s) }

func write(w io.Writer, name, text string, s Served) error {
	if err := s.check(); err != nil {
		return err
	}
	t, err := template.New(name).Option("missingkey=error").Parse(text)
	if err == nil {
		err = t.Execute(w, s)
	}
	if err != nil {
		return fmt.Errorf("write service file: %w", err)
	}
	return nil
}
