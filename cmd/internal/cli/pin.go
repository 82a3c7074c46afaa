package cli

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"sallyport/auditlog"
	"sallyport/gateway/api"
	"sallyport/gateway/home"
)

// errOtherKey: the pin store holds another key under the same origin.
var errOtherKey = errors.New("another key is pinned for this origin")

func (a *app) pin() *cobra.Command {
	return &cobra.Command{
		Use:   "pin [DIR]",
		Short: "Keep the public key of a log, to verify against later",
		Long: `Keep the public key of the log in DIR (this user's own by default) in the user's
config folder. Compare the fingerprint with what sp init printed, or ask whoever made
the log.`,
		Args: atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := a.openFolder(append(args, "")[0])
			if err != nil {
				return err
			}
			if f.pub == nil {
				return usage("%s holds no audit.pub", f.top)
			}
			h, err := a.home()
			if err != nil {
				return err
			}
			path, print, err := keepPin(h.Pins(), f.pub)
			if errors.Is(err, errOtherKey) {
				return &adviceError{err, "if the log was made anew on purpose, remove " + path + " and pin again"}
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(a.out, "pinned %s in %s\n", print, path)
			return nil
		},
	}
}

// pinNew pins the key of the log that init has just made.
func (a *app) pinNew(c api.Created) error {
	err := a.pinCreated(c)
	if err != nil {
		return &adviceError{fmt.Errorf("pin audit key: %w", err), "the vault is ready; pin with `sp audit pin` and compare the fingerprint"}
	}
	return nil
}

func (a *app) pinCreated(c api.Created) error {
	h, err := a.home()
	if err != nil {
		return err
	}
	pub := []byte(c.AuditKey)
	print, err := auditlog.Fingerprint(pub)
	if err != nil {
		return err
	}
	if print != c.Fingerprint {
		return fmt.Errorf("the key is %s, the gateway made %s", print, c.Fingerprint)
	}
	path, _, err := keepPin(h.Pins(), pub)
	if err == nil {
		a.say("pinned the audit key in %s", escape(path))
	}
	return err
}

// keepPin stores pub under its origin. A pin is only replaced by one of the same identity.
func keepPin(dir string, pub []byte) (path, fingerprint string, err error) {
	p, err := auditlog.ParsePub(pub)
	if err != nil {
		return "", "", err
	}
	if fingerprint, err = auditlog.Fingerprint(pub); err != nil {
		return "", "", err
	}
	if err := home.MakePrivate(dir); err != nil {
		return "", "", err
	}
	path = pinPath(dir, p.Origin)
	was, err := readPin(dir, p.Origin)
	if err != nil {
		return path, "", err
	}
	if was != nil {
		if old, err := auditlog.Fingerprint(was); err != nil || old != fingerprint {
			return path, "", errOtherKey
		}
		if bytes.Equal(was, pub) {
			return path, fingerprint, nil
		}
	}
	return path, fingerprint, writePin(path, pub)
}

func writePin(path string, pub []byte) error {
	temp := path + "." + rand.Text()
	if err := os.WriteFile(temp, pub, 0o600); err != nil {
		return fmt.Errorf("write pin: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return fmt.Errorf("write pin: %w", err)
	}
	return nil
}

// readPin is the pin of origin in dir; nil: there is none. A pin that others could have written is refused.
func readPin(dir, origin string) ([]byte, error) {
	err := home.CheckPrivate(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	path := pinPath(dir, origin)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return readFile(path)
}

// pinPath names a pin's file by its origin, whatever letters that has: never a
// path of its own, never hidden, never longer than a file name may be.
func pinPath(dir, origin string) string {
	name := url.PathEscape(origin)
	if strings.HasPrefix(name, ".") {
		name = "%2E" + name[1:]
	}
	if len(name) > 200 {
		name = fmt.Sprintf("%s-%x", name[:120], sha256.Sum256([]byte(origin)))
	}
	return filepath.Join(dir, name+".pub")
}
