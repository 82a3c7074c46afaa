package store_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"sallyport/gateway/store"
	"sallyport/vault"
)

// childEnv holds what a child process of the kill tests does, and the database
// it does it to: "rekey /tmp/…/vault.db".
const childEnv = "SALLYPORT_TEST_KILL"

func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		runtime.LockOSThread() // who counts system calls counts them by thread
		what, path, _ := strings.Cut(job, " ")
		err := deeds[what](context.Background(), path)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeUntilKilled creates a vault at path if there is none, then adds
// credentials, each with its batch, and says each number once it is stored.
func writeUntilKilled(ctx context.Context, path string) error {
	d, err := store.Open(ctx, path)
	if err != nil {
		return err
	}
	v, err := vault.Open(ctx, d)
	if err != nil {
		return err
	}
	key := vault.Passphrase([]byte(passphrase))
	if v.State() == vault.Absent {
		draft, err := v.Prepare(key, vault.CreateOptions{WorkFactor: 10})
		if err != nil {
			return err
		}
		if err := draft.Commit(ctx, nil, nil); err != nil {
			return err
		}
	} else if err := v.Unlock(ctx, key); err != nil {
		return err
	}
	fmt.Println(-1)
	for n := len(v.Snapshot().Credentials()); ; n++ {
		b := store.Batch{ID: [16]byte{1, byte(n >> 8), byte(n)}, Body: []byte(strconv.Itoa(n))}
		m := vault.Meta{Name: fmt.Sprintf("credential-%06d", n), Rules: make([]byte, 3000)}
		if _, err := v.AddCredential(ctx, m, []byte("value"), b.Bytes()); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// child is this program again, doing one of the deeds.
func child(deed, path string) *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childEnv+"="+deed+" "+path, "GOMAXPROCS=1")
	c.Stderr = os.Stderr
	return c
}

// TestKill ends a writer with SIGKILL again and again. What it said is there,
// and rows, counter, manifest and outbox are of one moment.
func TestKill(t *testing.T) {
	rounds := 6
	if os.Getenv("SALLYPORT_LONG") == "1" {
		rounds = 120
	}
	var path string
	for round := range rounds {
		round %= 30 // a change costs more the more entries there are
		if round == 0 {
			path = filepath.Join(t.TempDir(), "vault.db")
		}
		c := child("write", path)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		said, lines := -1, bufio.NewScanner(out)
		for i := 0; i < round*3+1 && lines.Scan(); i++ {
			if said, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // said before it died
			if said, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(err)
			}
		}
		c.Wait()
		checkKilled(t, path, said)
	}
}

func checkKilled(t *testing.T, path string, said int) {
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
	if err := v.Unlock(t.Context(), vault.Passphrase([]byte(passphrase))); err != nil {
		t.Fatal(err)
	}
	n := len(v.Snapshot().Credentials())
	if n < said+1 {
		t.Fatalf("%d credentials, but number %d was said to be stored", n, said)
	}
	if c := v.Snapshot().Counter; c != uint64(n)+1 {
		t.Errorf("counter %d with %d credentials", c, n)
	}
	p, err := d.Pending(t.Context())
	if err != nil || len(p) != n {
		t.Fatalf("%d batches with %d credentials, %v", len(p), n, err)
	}
	for i, b := range p {
		if string(b.Body) != strconv.Itoa(i) {
			t.Fatalf("batch %d holds %q", i, b.Body)
		}
	}
}
