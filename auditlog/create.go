package auditlog

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// signerTitle is the first line of the recovery signer's file; the second is the base64 seed.
const signerTitle = "auditlog recovery signer 1\n"

// Create makes a new log in dir: dir/audit with the recovery signer and the first segment, then dir/audit.pub, all
// durable when it returns. dir is made, 0700, if it is not there. A log that lies there already is moved aside to
// audit.abandoned.N with its audit.pub: that it belongs to no vault is for the caller to know. A writer on it: ErrLocked.
func Create(dir string, id ed25519.PrivateKey, origin string, recipients []string, o Options) (*Writer, error) {
	w, err := create(dir, id, origin, recipients, o, osDisk{})
	if err != nil {
		return nil, fmt.Errorf("create audit log: %w", err)
	}
	return w, nil
}

func create(dir string, id ed25519.PrivateKey, origin string, recipients []string, o Options, d disk) (*Writer, error) {
	o = o.withDefaults()
	if len(id) != ed25519.PrivateKeySize {
		return nil, errors.New("identity is no ed25519 private key")
	}
	if err := checkOrigin(origin); err != nil {
		return nil, err
	}
	if err := ParseRecipients(recipients); err != nil {
		return nil, err
	}
	recovery, signer, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	defer clear(signer)
	p := Pub{Origin: origin, Identity: id.Public().(ed25519.PublicKey), Recovery: recovery, Recipients: append([]string(nil), recipients...), Serial: 1}
	signed, err := p.sign(id)
	if err != nil {
		return nil, err
	}
	if err := makeDir(dir, d); err != nil {
		return nil, err
	}
	if err := setAside(dir, d); err != nil {
		return nil, err
	}
	folder := filepath.Join(dir, segmentsFolder)
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	lock, err := lockDir(folder)
	if err != nil {
		return nil, err
	}
	w := &Writer{o: o, disk: d, folder: folder, lock: lock}
	w.pub.Store(&published{p, signed})
	err = writeFile(d, filepath.Join(folder, signerFile), []byte(signerTitle+base64.StdEncoding.EncodeToString(signer.Seed())+"\n"))
	if err == nil {
		err = w.start(beginning{n: 1, reason: genesis, by: id, from: stand{mark: mark{head: chainStart(origin)}}})
	}
	if err == nil {
		err = d.syncDir(dir)
	}
	// audit.pub comes last: without it there is no log, and the next Create begins anew.
	if err == nil {
		err = writeFile(d, filepath.Join(dir, pubFile), signed)
	}
	if err != nil {
		w.abort()
		return nil, err
	}
	return w, nil
}

// makeDir makes dir if it is not there.
func makeDir(dir string, d disk) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return d.syncDir(filepath.Dir(filepath.Clean(dir)))
}

// start begins the writer's first segment.
func (w *Writer) start(b beginning) error {
	b.now, b.counter = w.o.Now(), w.o.Counter()
	s, c, after, err := begin(w.disk, w.folder, w.pub.Load(), b, nil)
	if err != nil {
		return err
	}
	w.live = liveLog{seg: s, at: after, open: map[[16]byte]intent{}}
	for _, i := range b.open {
		w.live.open[i.subject] = i
		w.queue.cost += i.cost()
	}
	w.committed(c)
	return nil
}

func (w *Writer) abort() {
	if w.live.seg != nil {
		w.live.seg.end(false)
	}
	w.lock.Close()
}

// setAside moves an older log out of the way, audit.pub first, so that a crash between leaves a folder without a log.
func setAside(dir string, d disk) error {
	folder, pub := filepath.Join(dir, segmentsFolder), filepath.Join(dir, pubFile)
	_, err := os.Lstat(pub)
	hasPub := err == nil
	list, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !hasPub && len(list) == 0 {
		return nil
	}
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	lock, err := lockDir(folder)
	if err != nil {
		return err
	}
	defer lock.Close()
	if hasPub {
		if err := d.rename(pub, filepath.Join(folder, pubFile)); err != nil {
			return err
		}
		if err := d.syncDir(dir); err != nil {
			return err
		}
	}
	for n := 1; ; n++ {
		to := filepath.Join(dir, fmt.Sprintf("audit.abandoned.%d", n))
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		if err := d.rename(folder, to); err != nil {
			return err
		}
		return d.syncDir(dir)
	}
}

// readSigner reads the recovery key and holds it against audit.pub.
func readSigner(folder string, p Pub) (ed25519.PrivateKey, error) {
	b, err := os.ReadFile(filepath.Join(folder, signerFile))
	if err != nil {
		return nil, fmt.Errorf("read recovery signer: %w", err)
	}
	defer clear(b)
	line, ok := strings.CutPrefix(string(b), signerTitle)
	seed, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(line, "\n"))
	if !ok || err != nil || len(seed) != ed25519.SeedSize {
		return nil, errors.New("read recovery signer: no signer in the file")
	}
	defer clear(seed)
	k := ed25519.NewKeyFromSeed(seed)
	if !p.Recovery.Equal(k.Public()) {
		return nil, errors.New("read recovery signer: it is not the one that audit.pub names")
	}
	return k, nil
}
