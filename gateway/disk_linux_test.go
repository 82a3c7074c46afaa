package gateway

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sallyport/vault"
)

// What finds no room on the disk says so by its code, and loses nothing.
func TestFullDiskIsTold(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("tmpfs: mounting one needs root")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m,mode=0700", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("tmpfs: %v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("umount", "-l", dir).Run() })
	r := newRig(t, dir)
	r.init()
	r.addBearer("ledger", "POST https://example.com/**")
	b := r.backup()
	filler := filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{64 << 10, 4 << 10, 1} {
		for err == nil {
			_, err = f.Write(make([]byte, n))
		}
		err = nil
	}
	f.Close()
	for name, c := range map[string]string{
		"backup":  turnedDown(r.opBackup, opRequest{ctx: t.Context(), who: "passphrase"}),
		"restore": turnedDown(r.opRestore, restored(t, b, "passphrase", testPassphrase)),
	} {
		if c != "disk_refused" {
			t.Errorf("%s on a full disk: %q", name, c)
		}
	}
	if got := r.vault.State(); got != vault.Ready {
		t.Errorf("vault is %s", got)
	}
	if got := turnedDown(r.opRekey, rekeyed(t, testPassphrase)); got != "disk_refused" {
		t.Errorf("rekey on a full disk: %q", got)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if r.vault.State() == vault.Locked { // a rekey that failed locks
		r.unlock()
	}
	if got := r.credentials(); len(got) != 1 || got[0] != "ledger" {
		t.Errorf("credentials %v", got)
	}
	r.restore(restored(t, b, "passphrase", testPassphrase))
	if out, err := r.opRekey(rekeyed(t, testPassphrase)); err != nil {
		t.Errorf("with room again: %v, %v", out, err)
	}
}
