package cli

import (
	"context"

	"sallyport/gateway/api"
)

// need is the state of the vault that a command with a proof can do anything in.
type need uint8

const (
	needReady   need = iota // it must be open
	needAbsent              // init: there must be none
	needSome                // unlock, release: there must be one
	needNothing             // restore: any state will do
)

// reach makes sure, before a person types anything, that it will not be for
// nothing: a gateway answers, and its vault is in a state for the command.
func (p *asker) reach(ctx context.Context) error {
	if p.reached {
		return nil
	}
	s, err := p.a.ask(ctx)
	if err != nil {
		return err
	}
	p.reached = true
	switch {
	case p.need == needAbsent && s.Vault != "absent":
		return &adviceError{api.Fail("exists", "there is a vault already"), "open it with `sp unlock`; another vault needs another SALLYPORT_HOME"}
	case p.need == needSome && s.Vault == "absent", p.need == needReady && s.Vault != "ready":
		return api.Fail("vault_"+s.Vault, "")
	}
	return nil
}
