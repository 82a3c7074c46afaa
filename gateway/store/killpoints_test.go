package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sallyport/gateway/store"
	"sallyport/vault"
)

// deeds are what a child does until it is killed. Each says "ready", then a
// number whenever something is stored; with a final "!" each does it once.
var deeds = map[string]func(context.Context, string) error{
	"write": writeUntilKilled,
	"init":  initialise, "init!": initialise,
	"rekey": forever(rekeyOnce), "rekey!": once(rekeyOnce),
	"slots": forever(slotsOnce), "slots!": once(slotsOnce),
	"restore": forever(restoreOnce), "restore!": once(restoreOnce),
}

const otherPassphrase = "the other passphrase"

func other() vault.Key { return vault.Passphrase([]byte(otherPassphrase)) }

// initialise makes a vault, once: there is no second.
func initialise(ctx context.Context, path string) error {
	fmt.Println("ready")
	d, err := store.Open(ctx, path)
	if err != nil {
		return err
	}
	v, err := vault.Open(ctx, d)
	if err != nil {
		return err
	}
	draft, err := v.Prepare(key(), quick)
	if err != nil {
		return err
	}
	b := store.Batch{ID: [16]byte{1}, Body: []byte("created")}
	if err := draft.Commit(ctx, map[string][]byte{"log identity": []byte("the log's own key")}, b.Bytes()); err != nil {
		return err
	}
	fmt.Println(1)
	return errors.New("done")
}

// opened opens whatever vault is at path.
func opened(ctx context.Context, path string) (*store.DB, *vault.Vault, error) {
	d, err := store.Open(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	v, err := vault.Open(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	if err := v.Unlock(ctx, key()); errors.Is(err, vault.ErrWrongKey) {
		err = v.Unlock(ctx, other())
		return d, v, err
	} else if err != nil {
		return nil, nil, err
	}
	return d, v, nil
}

func forever(f func(context.Context, string, *vault.Vault) error) func(context.Context, string) error {
	return func(ctx context.Context, path string) error {
		_, v, err := opened(ctx, path)
		if err != nil {
			return err
		}
		for fmt.Println("ready"); ; {
			if err := f(ctx, path, v); err != nil {
				return err
			}
			fmt.Println(v.Snapshot().Generation)
		}
	}
}

func once(f func(context.Context, string, *vault.Vault) error) func(context.Context, string) error {
	return func(ctx context.Context, path string) error {
		_, v, err := opened(ctx, path)
		if err != nil {
			return err
		}
		if err := f(ctx, path, v); err != nil {
			return err
		}
		fmt.Println(v.Snapshot().Generation)
		return errors.New("done")
	}
}

func rekeyOnce(ctx context.Context, _ string, v *vault.Vault) error {
	_, err := v.Rekey(ctx, []vault.Key{key()}, quick, nil)
	return err
}

// slotsOnce adds a slot, changes the passphrase to and fro, and removes the slot.
func slotsOnce(ctx context.Context, _ string, v *vault.Vault) error {
	from, to := key(), other()
	if v.Check(ctx, from) != nil {
		from, to = to, from
	}
	_, recipient, err := vault.NewIdentity()
	if err != nil {
		return err
	}
	s, err := v.AddSlot(ctx, vault.NewSlot{Kind: vault.KeychainSlot, Recipient: recipient}, from, nil)
	if err != nil {
		return err
	}
	if _, err := v.ChangePassphrase(ctx, from, to, quick, nil); err != nil {
		return err
	}
	return v.RemoveSlot(ctx, s.ID, to, nil)
}

// restoreOnce restores the backup that lies beside the database.
func restoreOnce(ctx context.Context, path string, v *vault.Vault) error {
	f, err := os.Open(filepath.Join(filepath.Dir(path), "backup.age"))
	if err != nil {
		return err
	}
	defer f.Close()
	v.Lock()
	if _, err := v.Restore(ctx, f, key(), vault.RestoreOptions{Limit: 64 << 20}, nil); err != nil {
		return err
	}
	return v.Unlock(ctx, key())
}

// scene is a vault with a backup beside it, for a child to work on.
func scene(t *testing.T) (path, recovery string) {
	t.Helper()
	path, recovery = created(t)
	d := open(t, path)
	v := unlocked(t, d, key())
	peopled(t, d, v)
	f, err := os.Create(filepath.Join(filepath.Dir(path), "backup.age"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := v.Backup(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return path, recovery
}

// survived opens what a killed child left: one or the other, whole, by every
// key it must open with, at least as far as the child said. It returns the
// generation.
func survived(t *testing.T, path, recovery string, said uint64) uint64 {
	t.Helper()
	d, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	left, err := filepath.Glob(path + ".*")
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	v, err := vault.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	err1, err2 := v.Check(t.Context(), key()), v.Check(t.Context(), other())
	if (err1 == nil) == (err2 == nil) {
		t.Fatalf("of two passphrases not exactly one opens: %v, %v", err1, err2)
	}
	if err := v.Unlock(t.Context(), vault.Recovery(recovery)); err != nil {
		t.Fatalf("neither the old nor the new opens: %v", err)
	}
	readable(t, v)
	if got := boxesOf(t, d, v); got != boxesWanted {
		t.Errorf("boxes: %s", got)
	}
	kinds := map[vault.SlotKind]int{}
	for _, s := range v.Slots() {
		kinds[s.Kind]++
	}
	if kinds[vault.PassphraseSlot] != 1 || kinds[vault.RecoverySlot] != 1 || len(v.Forged()) != 0 {
		t.Errorf("slots %v, forged %v", kinds, v.Forged())
	}
	g := v.Snapshot().Generation
	if g < said {
		t.Errorf("generation %d, and %d was said to be stored", g, said)
	}
	return g
}

// listen starts a child and returns what it says; the last number it said is
// in the result after the channel is closed.
func listen(t *testing.T, c *exec.Cmd) (ready <-chan struct{}, last func() uint64) {
	t.Helper()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = io.Discard // "done", or a killed strace's own words
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	begun, ended := make(chan struct{}), make(chan struct{})
	var said uint64
	go func() {
		defer close(ended)
		for lines, first := bufio.NewScanner(out), true; lines.Scan(); first = false {
			if first {
				close(begun)
			}
			if n, err := strconv.ParseUint(lines.Text(), 10, 64); err == nil {
				said = n
			}
		}
	}()
	return begun, func() uint64 { <-ended; c.Wait(); return said }
}

// TestKillPoints: V08. Killed at any time, the old or the new opens.
func TestKillPoints(t *testing.T) {
	rounds := 10
	if os.Getenv("SALLYPORT_LONG") == "1" {
		rounds = 150
	}
	for _, deed := range []string{"rekey", "slots", "restore"} {
		t.Run(deed, func(t *testing.T) {
			path, recovery := scene(t)
			first, latest := uint64(0), uint64(0)
			window := 60 * time.Millisecond // follows what this machine takes, so that some deeds end and some don't
			for range rounds {
				c := child(deed, path)
				ready, last := listen(t, c)
				<-ready
				time.Sleep(time.Duration(rand.Int64N(int64(window)))) // the moment is what is tried
				c.Process.Kill()
				said := last()
				if latest = survived(t, path, recovery, said); said == 0 {
					window = min(window*5/4, 2*time.Second)
				} else {
					window = max(window*4/5, 10*time.Millisecond)
				}
				if first == 0 {
					first = latest
				}
			}
			if deed != "slots" && latest == first && rounds > 20 {
				t.Errorf("nothing was ever stored: generation %d", latest)
			}
		})
	}
	t.Run("init", func(t *testing.T) {
		made := 0
		for range rounds {
			path := filepath.Join(t.TempDir(), "vault.db")
			c := child("init", path)
			ready, last := listen(t, c)
			<-ready
			time.Sleep(time.Duration(rand.Int64N(int64(40 * time.Millisecond))))
			c.Process.Kill()
			if begun(t, path, last() == 1) {
				made++
			}
		}
		t.Logf("%d of %d vaults were made", made, rounds)
	})
}

// begun opens what a killed init left: nothing, or a whole vault; a whole one
// if that was said. Another init must work where there is nothing.
func begun(t *testing.T, path string, said bool) bool {
	t.Helper()
	d, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	v, err := vault.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Pending(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v.State() == vault.Absent {
		if said || len(p) != 0 {
			t.Errorf("no vault, said %v, %d batches", said, len(p))
		}
		draft, err := v.Prepare(key(), quick)
		if err == nil {
			err = draft.Commit(t.Context(), nil, nil)
		}
		if err != nil {
			t.Errorf("init after a killed one: %v", err)
		}
		return false
	}
	if err := v.Unlock(t.Context(), key()); err != nil || len(v.Slots()) != 2 || len(p) != 1 {
		t.Errorf("%v, %v, %d batches", err, v.Slots(), len(p))
	}
	return true
}

// steps are the system calls by which anything reaches the disk.
const steps = "pwrite64,write,fsync,fdatasync,ftruncate,unlink,unlinkat,rename,renameat,renameat2,fchmod"

// TestKillSteps kills at each of these calls: the n-th, for every n.
func TestKillSteps(t *testing.T) {
	part(t, "strace")
	stride := 17 // a sample; all of them take long
	if os.Getenv("SALLYPORT_LONG") == "1" {
		stride = 1
	}
	for _, deed := range []string{"rekey!", "slots!", "restore!", "init!"} {
		t.Run(deed, func(t *testing.T) {
			path, recovery := scene(t)
			killed := 0
			for n := 1 + rand.IntN(stride); ; n += stride {
				at := path
				if deed == "init!" {
					at = filepath.Join(t.TempDir(), "vault.db")
				}
				c := child(deed, at)
				c.Args = []string{"strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace=" + steps,
					"-e", fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", steps, n), c.Path}
				c.Path, _ = exec.LookPath("strace")
				_, last := listen(t, c)
				said := last()
				if deed == "init!" {
					begun(t, at, said == 1)
				} else {
					survived(t, at, recovery, said)
				}
				if c.ProcessState.ExitCode() == 1 { // it came to its end
					break
				}
				killed++
				if n > 5000 {
					t.Fatal("no end")
				}
			}
			if killed < 3 {
				t.Errorf("killed %d times only", killed)
			}
			t.Logf("killed %d times", killed)
		})
	}
}

// part skips without a program, or fails where all of them are required.
func part(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("SALLYPORT_REAL") == "require" {
			t.Fatalf("%s: %v", program, err)
		}
		t.Skipf("%s: %v", program, strings.TrimPrefix(err.Error(), "exec: "))
	}
}
