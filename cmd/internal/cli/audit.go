package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sallyport/auditlog"
	"sallyport/gateway/api"
)

func (a *app) audit() *cobra.Command {
	return group("audit", "The audit log: verify it, read it, anchor it",
		a.verify(), a.pin(), a.sessions(), a.activity(), a.record(), a.export(), a.checkpoint(), a.witness())
}

func (a *app) checkpoint() *cobra.Command {
	return &cobra.Command{
		Use:   "checkpoint",
		Short: "Print a signed note of the log's head, for `sp audit verify --against`",
		Long: `Print a signed note of the log's head. Keep it away from this machine (git, e-mail,
a witness): sp audit verify --against shows with it whether anything before was cut
off.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var c api.Checkpoint
			if err := a.do(cmd.Context(), api.PathCheckpoint, nil, nil, nil, &c); err != nil {
				return err
			}
			_, err := fmt.Fprint(a.out, c.Note)
			return err
		},
	}
}

// folder is a log on disk, the gateway's own or a copy.
type folder struct {
	dir      string // as it was named: what comes with it vouches for nothing
	top      string // holds audit.pub and audit/
	segments fs.FS
	pub      []byte // what lies beside the segments; nil: nothing does
}

// openFolder opens dir, which is the folder that holds audit.pub and audit/, or
// audit/ itself. An empty dir is this user's own log.
func (a *app) openFolder(dir string) (folder, error) {
	if dir == "" {
		h, err := a.home()
		if err != nil {
			return folder{}, err
		}
		f, err := find(h.Log())
		if errors.Is(err, errNoLog) || errors.Is(err, fs.ErrNotExist) {
			err = &adviceError{usage("there is no audit log in %s yet", h.Log()), "`sp init` makes one with the vault; a copied log is named: its folder is DIR"}
		}
		return f, err
	}
	if dir, err := filepath.Abs(dir); err == nil {
		f, err := find(dir)
		if errors.Is(err, errNoLog) {
			err = &adviceError{err, "name the folder that holds audit.pub and audit/, or audit/ itself"}
		}
		return f, err
	}
	return folder{}, usage("%s is no folder", dir)
}

// errNoLog: find saw neither audit.pub nor audit/.
var errNoLog = errors.New("no log")

func find(dir string) (folder, error) {
	if i, err := os.Stat(dir); err != nil {
		return folder{}, &usageError{msg: err.Error(), err: err}
	} else if !i.IsDir() {
		return folder{}, usage("%s is no folder", dir)
	}
	f := folder{dir: dir, top: dir}
	inner := filepath.Join(dir, "audit")
	if _, err := os.Lstat(inner); errors.Is(err, fs.ErrNotExist) {
		if names, _ := filepath.Glob(filepath.Join(dir, "*.seg")); len(names) > 0 || filepath.Base(dir) == "audit" {
			inner, f.top = dir, filepath.Dir(dir)
		}
	}
	at := filepath.Join(f.top, "audit.pub")
	if i, err := os.Stat(at); err == nil && !i.Mode().IsRegular() { // a pipe would be waited for, a device read for ever
		return folder{}, usage("%s is no file", at)
	}
	pub, err := readFile(at)
	if err == nil {
		f.pub = pub
	}
	root, err := os.OpenRoot(inner) // a segment that is a link out of the folder is none
	switch {
	case err == nil:
		f.segments = root.FS()
	case errors.Is(err, fs.ErrNotExist) && f.pub != nil:
		f.segments = noSegments{} // all of them were removed: that is for Verify to say
	case errors.Is(err, fs.ErrNotExist):
		return folder{}, &usageError{msg: dir + " holds no log: neither audit.pub nor audit/", err: errNoLog}
	default:
		return folder{}, usage("%s", err)
	}
	return f, nil
}

// live says that a gateway holds the log open right now.
func (f folder) live() bool { return auditlog.HoldsLock(f.top) }

// noSegments is a folder without anything in it.
type noSegments struct{}

func (noSegments) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func (noSegments) ReadDir(string) ([]fs.DirEntry, error) { return nil, nil }
