package cli

import (
	"os"
	"testing"

	"sallyport/gateway/api"
)

// A key file that turns out to be encrypted: its passphrase is asked for at the terminal, and the same key goes again.
func TestKeyPassphraseAsked(t *testing.T) {
	w := newWorld(t)
	all := sample()
	all[api.PathStatus] = api.Status{Vault: "ready"}
	var values []string
	all[api.PathCredentialAdd] = func(q asked) any {
		values = append(values, string(q.value))
		if len(values) == 1 {
			return api.Fail("passphrase_required", "")
		}
		return api.Credential{Name: "k", Kind: "ssh-key"}
	}
	w.operator(all)
	f, err := os.Open(w.file("id", "KEY\nFILE\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w.stdin = f
	p := w.onTerminal(false, "secret", "add", "k", "--kind", "ssh-key")
	p.expect("passphrase: ", 1)
	p.master.WriteString("operator\n")
	p.expect("passphrase of the key file: ", 1)
	p.master.WriteString("of the key\n")
	p.expect("stored k", 1)
	if len(values) != 2 || values[0] != "KEY\nFILE" || values[1] != "KEY\nFILEof the key" {
		t.Errorf("sent %q", values)
	}
	var args api.CredentialArgs
	w.last(api.PathCredentialAdd, &args)
	if args.PassphraseLength != len("of the key") {
		t.Errorf("args %+v", args)
	}
}
