package cli

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"

	"sallyport/auditlog"
)

// trust is the key that a log is verified against, and who vouches for it.
type trust struct {
	pub    []byte
	pinned bool   // it comes from outside the folder
	by     string // where it comes from, in words
	fault  *auditlog.Report
}

// trust decides against which key f is verified: --pub, --fingerprint or this
// user's pin. Only when none of them is there it is f's own audit.pub, which
// proves nothing. A folder's audit.pub that does not agree with the key is a fault.
func (a *app) trust(f folder, pubFile, fingerprint string) (trust, error) {
	own, ownErr := auditlog.ParsePub(f.pub)
	var t trust
	switch {
	case pubFile != "" && fingerprint != "":
		return trust{}, usage("give one of --pub and --fingerprint")
	case pubFile != "":
		pub, err := readFile(pubFile)
		if err != nil {
			return trust{}, err
		}
		if _, err := auditlog.ParsePub(pub); err != nil {
			return trust{}, usage("%s: %s", pubFile, err)
		}
		t = trust{pub: pub, pinned: a.outside(f, pubFile), by: pubFile}
		if !t.pinned {
			t.by += ", which lies in the folder itself"
		}
	case f.pub == nil:
		return trust{}, usage("%s holds no audit.pub: give the key with --pub", f.top)
	case ownErr != nil:
		return trust{fault: ownFault("unsigned", ownErr.Error())}, nil
	case fingerprint != "":
		want := strings.ToLower(strings.TrimPrefix(strings.ToLower(fingerprint), "sha256:"))
		if len(want) != 2*sha256.Size || strings.Trim(want, "0123456789abcdef") != "" {
			return trust{}, usage("--fingerprint is sha256: and 64 hexadecimal digits")
		}
		t = trust{pub: f.pub, pinned: true, by: "--fingerprint"}
		if is, err := auditlog.Fingerprint(f.pub); err != nil || is != "sha256:"+want {
			t.fault = ownFault("forked", "audit.pub is "+is+", expected sha256:"+want)
		}
		return t, nil
	default:
		var err error
		if t, err = a.pinned(own.Origin); err != nil {
			return trust{}, err
		}
		if !t.pinned {
			return trust{pub: f.pub, by: "the folder's own audit.pub"}, nil
		}
	}
	if f.pub != nil {
		t.fault = disagrees(f.pub, t.pub)
	}
	return t, nil
}

// pinned is this user's pin of origin. Somebody without a home has none.
func (a *app) pinned(origin string) (trust, error) {
	h, err := a.home()
	if err != nil {
		return trust{}, nil
	}
	pub, err := readPin(h.Pins(), origin)
	if err != nil {
		return trust{}, usage("%s", err)
	}
	if pub == nil {
		return trust{}, nil
	}
	if _, err := auditlog.ParsePub(pub); err != nil {
		return trust{}, usage("the pin %s: %s", pinPath(h.Pins(), origin), err)
	}
	return trust{pub: pub, pinned: true, by: pinPath(h.Pins(), origin)}, nil
}

// disagrees compares the audit.pub that lies beside the segments with the key from
// outside. Its serial may have grown; its identity is the log's for ever.
func disagrees(own, key []byte) *auditlog.Report {
	is, err := auditlog.Fingerprint(own)
	if err != nil {
		return ownFault("unsigned", err.Error())
	}
	if want, err := auditlog.Fingerprint(key); err != nil || is != want {
		return ownFault("forked", "audit.pub is "+is+", expected "+want)
	}
	return nil
}

func ownFault(kind, detail string) *auditlog.Report {
	return &auditlog.Report{Verdict: auditlog.Broken, Kind: kind, Segment: "audit.pub", Detail: detail}
}

// outside says that the file does not come with the folder: it lies not below it, and is not the audit.pub beside
// the segments. This user's pins may lie in the same tree (SALLYPORT_HOME); a copied folder's pins are not this user's.
func (a *app) outside(f folder, file string) bool {
	path, err := filepath.EvalSymlinks(file)
	if err != nil {
		return false
	}
	if within(path, f.dir) {
		h, err := a.home()
		return err == nil && within(path, h.Pins())
	}
	beside, err := os.Stat(filepath.Join(f.top, "audit.pub"))
	if err != nil {
		return true
	}
	is, err := os.Stat(path)
	return err == nil && !os.SameFile(beside, is)
}

// within says that path lies below dir, both taken without links.
func within(path, dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	if path, err = filepath.Abs(path); err != nil {
		return false
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
