package keychain

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/keybase/dbus"
	"github.com/keybase/go-keychain/secretservice"
)

// session is the connection to the Secret Service. The library can't close one,
// so it is kept, and made anew only after a fault of the bus.
type session struct{ s *secretservice.SecretService }

// bus says whether there is a session bus. The library would start one with
// dbus-launch, which nobody else would be connected to. An address comes from
// whoever started us: one that is no socket here could run a program
// (unixexec:) or leave the machine (tcp:).
func bus() error {
	if a := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); a != "" && !strings.HasPrefix(a, "autolaunch:") {
		for one := range strings.SplitSeq(a, ";") {
			if !strings.HasPrefix(one, "unix:") {
				return fmt.Errorf("session bus is no socket: %w", ErrUnavailable)
			}
		}
		return nil
	}
	name := fmt.Sprintf("/run/user/%d/bus", os.Getuid()) // where the library looks
	if i, err := os.Stat(name); err != nil || i.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("no session bus: %w", ErrUnavailable)
	}
	return nil
}

// ready connects, and refuses a collection that would have to ask the user.
func (c *session) ready() (*secretservice.SecretService, error) {
	if err := bus(); err != nil {
		return nil, err
	}
	if c.s == nil {
		s, err := secretservice.NewService()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		c.s = s
	}
	v, err := c.s.Obj(secretservice.DefaultCollection).GetProperty("org.freedesktop.Secret.Collection.Locked")
	if err != nil {
		return nil, c.failed(err)
	}
	if locked, ok := v.Value().(bool); !ok || locked {
		return nil, ErrLocked
	}
	return c.s, nil
}

// failed names what a caller chooses on. What isn't an answer of the service's
// own may be a broken connection: the next call makes another.
func (c *session) failed(err error) error {
	var dismissed secretservice.PromptDismissedError
	var e dbus.Error
	switch {
	case errors.As(err, &dismissed):
		return ErrDismissed
	case !errors.As(err, &e):
		c.s = nil
		return err
	case e.Name == "org.freedesktop.Secret.Error.IsLocked":
		return ErrLocked
	case e.Name == "org.freedesktop.Secret.Error.NoSuchObject" || strings.HasPrefix(e.Name, "org.freedesktop.DBus.Error."):
		return fmt.Errorf("%w: %s", ErrUnavailable, e.Name)
	}
	return err
}

func attributes(service, account string) secretservice.Attributes {
	return secretservice.Attributes{"service": service, "account": account}
}

// find returns the items; a keyring may hold twins that others made.
func (c *session) find(service, account string) (*secretservice.SecretService, []dbus.ObjectPath, error) {
	s, err := c.ready()
	if err != nil {
		return nil, nil, err
	}
	items, err := s.SearchCollection(secretservice.DefaultCollection, attributes(service, account))
	if err != nil {
		return nil, nil, c.failed(err)
	}
	if len(items) == 0 {
		return nil, nil, ErrNotFound
	}
	return s, items, nil
}

func (c *session) get(service, account string) ([]byte, error) {
	s, items, err := c.find(service, account)
	if err != nil {
		return nil, err
	}
	if len(items) > 1 {
		return nil, fmt.Errorf("%d items of one name", len(items))
	}
	o, err := open(s)
	if err != nil {
		return nil, c.failed(err)
	}
	defer s.CloseSession(o)
	b, err := s.GetSecret(items[0], *o)
	if err != nil {
		return nil, c.failed(err)
	}
	if len(b) == 0 { // the library's answer to a box that doesn't open, too
		return nil, errors.New("item is empty or spoilt on the way")
	}
	return b, nil
}

func (c *session) set(service, account string, secret []byte) error {
	s, err := c.ready()
	if err != nil {
		return err
	}
	o, err := open(s)
	if err != nil {
		return c.failed(err)
	}
	defer s.CloseSession(o)
	sealed, err := o.NewSecret(secret)
	if err != nil {
		return err
	}
	p := secretservice.NewSecretProperties(service+" "+account, attributes(service, account))
	if _, err := s.CreateItem(secretservice.DefaultCollection, p, sealed, secretservice.ReplaceBehaviorReplace); err != nil {
		return c.failed(err)
	}
	return nil
}

func (c *session) remove(service, account string) error {
	s, items, err := c.find(service, account)
	if err != nil {
		return err
	}
	for _, i := range items {
		if err := s.DeleteItem(i); err != nil {
			return c.failed(err)
		}
	}
	return nil
}
