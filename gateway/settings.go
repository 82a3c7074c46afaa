package gateway

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/notify"
	"sallyport/vault"
)

// settings is what the operator decided and the vault keeps sealed. Each is changed with proof, by `sp apply`.
type settings struct {
	AuditMirror string    `toml:"audit_mirror" json:"auditMirror"`                      // a folder that gets a copy of the log; empty: none
	Recipients  []string  `toml:"recipients" json:"recipients"`                         // age recipients of the log besides the vault's recovery; none: the first reader
	Witness     []string  `toml:"witness" json:"witness"`                               // "URL VERIFIER-KEY", each a C2SP tlog-witness
	Budgets     budgets   `toml:"budgets" json:"budgets,omitzero"`                      // of cards; zero: defaultBudgets
	AutoLock    string    `toml:"auto_lock" json:"autoLock,omitempty"`                  // locks so long after the last proof; 8h (the default), off
	Retention   retention `toml:"retention" json:"retention,omitzero"`                  // of what actions leave; empty: defaultRetention
	OnArtifact  string    `toml:"on_artifact_change" json:"onArtifactChange,omitempty"` // note (the default) or suspend
	Notify      []string  `toml:"notify" json:"notify,omitempty"`                       // ways to tell that cards wait; see gateway/notify
}

// settingsName is the one document they are kept in.
const settingsName = "settings"

// readSettings takes them from a snapshot; none were ever set is the zero value.
func readSettings(snap *vault.Snapshot) (settings, error) {
	var s settings
	if doc, ok := snap.Setting(settingsName); ok {
		if err := json.Unmarshal(doc, &s, json.RejectUnknownMembers(true)); err != nil {
			return s, fmt.Errorf("read settings: %w", err)
		}
	}
	return s, nil
}

// keys are the settings' names in an apply file, in their order.
func (settings) keys() []string {
	t := reflect.TypeFor[settings]()
	out := make([]string, t.NumField())
	for i := range out {
		out[i] = t.Field(i).Tag.Get("toml")
	}
	return out
}

// check refuses what could not be followed. named tells whether the file speaks of a key.
func (s settings) check(named func(key string) bool) error {
	if s.AuditMirror != "" && (!filepath.IsAbs(s.AuditMirror) || filepath.Clean(s.AuditMirror) != s.AuditMirror) {
		return api.Fail("invalid_request", "audit_mirror: an absolute path of a folder, with no . or .. in it")
	}
	if err := s.Budgets.check(); err != nil {
		return err
	}
	if _, _, _, err := s.Retention.times(); err != nil {
		return err
	}
	if a := s.onArtifact(); a != artifactNote && a != artifactSuspend {
		return api.Fail("invalid_request", "on_artifact_change: note or suspend")
	}
	if err := notify.Check(s.Notify); err != nil {
		return api.Fail("invalid_request", "notify: "+err.Error())
	}
	if _, err := autoLock(s.AutoLock); err != nil {
		return api.Fail("invalid_request", "auto_lock: "+err.Error())
	}
	for _, w := range s.Witness {
		if _, err := parseWitness(w); err != nil {
			return api.Fail("invalid_request", "witness: "+err.Error())
		}
	}
	if named("recipients") {
		if err := auditlog.ParseRecipients(s.Recipients); err != nil && len(s.Recipients) > 0 {
			return api.Fail("invalid_request", "recipients: "+err.Error())
		}
	}
	return nil
}

// inTOML writes a setting's value; JSON's form is TOML's for all but a table.
func inTOML(v any) string {
	switch v := v.(type) {
	case budgets:
		return v.String()
	case retention:
		return v.String()
	}
	return string(encode(v))
}

// changed lists what differs, as TOML values.
func changed(was, next settings) []api.Change {
	out := []api.Change{}
	a, b := reflect.ValueOf(was), reflect.ValueOf(next)
	for i, name := range was.keys() {
		if x, y := inTOML(a.Field(i).Interface()), inTOML(b.Field(i).Interface()); x != y {
			if name == notifyName { // which of two topics is nobody's business who gives no proof
				x, y = inTOML(shownWays(was.Notify)), inTOML(shownWays(next.Notify))
			}
			out = append(out, api.Change{Setting: name, Old: x, New: y})
		}
	}
	return out
}

// over is what an apply file is read over: the settings that stand, in memory of their own.
func (s settings) over() settings {
	s.Recipients, s.Witness, s.Notify = slices.Clone(s.Recipients), slices.Clone(s.Witness), slices.Clone(s.Notify)
	s.Budgets = s.Budgets.orDefault() // a file may name one of them
	return s
}

// prepareSettings makes the log follow first, and returns what is to be recorded: what can't be done is not stored.
// g.authority is held.
func (g *Gateway) prepareSettings(ctx context.Context, was, next settings, operator string) ([]event.Event, error) {
	changes := changed(was, next)
	if len(changes) == 0 {
		return nil, nil
	}
	all, err := g.sealedTo(ctx, next.Recipients)
	if err != nil {
		return nil, err // before anything is changed
	}
	if was.AuditMirror != next.AuditMirror {
		if err := g.log.w.Load().Mirror(next.AuditMirror); err != nil {
			return nil, api.Fail("invalid_request", "audit_mirror: "+err.Error())
		}
	}
	evs := []event.Event{event.SettingsChanged{Settings: changedKeys(changes), Operator: operator}}
	if !slices.Equal(was.Recipients, next.Recipients) {
		if err := g.changeRecipients(ctx, all); err != nil {
			return nil, err
		}
		evs = append(evs, event.LogRecipientsChanged{Recipients: next.Recipients, Operator: operator})
	}
	return evs, nil
}

// applySettings keeps other settings and follows them. g.authority is held.
func (g *Gateway) applySettings(ctx context.Context, was, next settings, operator string) error {
	evs, err := g.prepareSettings(ctx, was, next, operator)
	if err != nil || len(evs) == 0 {
		return err
	}
	err = g.changeVault(ctx, evs, func(ctx context.Context, also []byte) error {
		return g.vault.SetSetting(ctx, settingsName, encode(next), also)
	})
	if err != nil {
		return err
	}
	g.obey(next)
	return nil
}

// obey makes the gateway follow settings that are stored, in all but its log.
func (g *Gateway) obey(s settings) {
	g.witnesses.set(s.Witness)
	g.cards.set(s.Budgets)
	g.suspends.Store(s.onArtifact() == artifactSuspend)
	g.teller.Set(s.Notify)
}

// follow makes the log follow the settings and the log's identity, once the vault is open. A mirror that can't be used
// stops nothing: the status says how it fares.
func (g *Gateway) follow(ctx context.Context) error {
	w := g.log.w.Load()
	s, err := readSettings(g.vault.Snapshot())
	if err != nil {
		return err
	}
	g.complain("mirror the log", w.Mirror(s.AuditMirror))
	g.obey(s)
	if err := g.followRecipients(ctx, s.Recipients, "settings"); err != nil {
		return err
	}
	signer, err := g.identity(ctx)
	if err != nil {
		return err
	}
	return w.Identify(signer)
}

// followRecipients seals the log to those of the settings, where a change of them was cut short between log and vault.
func (g *Gateway) followRecipients(ctx context.Context, want []string, operator string) error {
	all, err := g.sealedTo(ctx, want)
	if err != nil {
		return err
	}
	file, err := os.ReadFile(filepath.Join(g.cfg.Home.Log(), "audit.pub"))
	if err != nil {
		return err
	}
	pub, err := auditlog.ParsePub(file)
	if err != nil || slices.Equal(pub.Recipients, all) {
		return err
	}
	if err := g.changeRecipients(ctx, all); err != nil {
		return err
	}
	return g.log.note(ctx, "", event.LogRecipientsChanged{Recipients: all, Operator: operator})
}

// identity is the log's identity as a signer whose key is lent by the vault for each signature.
func (g *Gateway) identity(ctx context.Context) (crypto.Signer, error) {
	s := logSigner{g: g}
	err := g.vault.With(ctx, vault.Ref{Table: vault.Internal, Name: logIdentity}, func(key vault.Secret) error {
		s.public = bytes.Clone(ed25519.PrivateKey(key.Bytes()).Public().(ed25519.PublicKey))
		return nil
	})
	return s, err
}

type logSigner struct {
	g      *Gateway
	public ed25519.PublicKey
}

func (s logSigner) Public() crypto.PublicKey { return s.public }

func (s logSigner) Sign(rand io.Reader, message []byte, o crypto.SignerOpts) (sig []byte, err error) {
	err = s.g.vault.With(context.Background(), vault.Ref{Table: vault.Internal, Name: logIdentity}, func(key vault.Secret) error {
		sig, err = ed25519.PrivateKey(key.Bytes()).Sign(rand, message, o)
		return err
	})
	return sig, err
}

// sealedTo is who the log is sealed to by a setting: those, or the first reader, and always the vault's recovery slots.
func (g *Gateway) sealedTo(ctx context.Context, recipients []string) ([]string, error) {
	m, err := g.maker(ctx)
	if err != nil {
		return nil, err
	}
	if len(recipients) == 0 {
		recipients = []string{m.Reader}
	}
	all := slices.Clone(recipients)
	for _, s := range g.vault.Slots() {
		if s.Kind == vault.RecoverySlot {
			all = append(all, s.Recipient)
		}
	}
	if err := auditlog.ParseRecipients(all); err != nil { // with the recovery's kind, which age may refuse to mix
		return nil, api.Fail("invalid_request", "recipients: "+err.Error())
	}
	return all, nil
}

// changeRecipients seals the log from here on to others.
func (g *Gateway) changeRecipients(ctx context.Context, all []string) error {
	return g.vault.With(ctx, vault.Ref{Table: vault.Internal, Name: logIdentity}, func(s vault.Secret) error {
		return g.log.w.Load().Recipients(ed25519.PrivateKey(s.Bytes()), all)
	})
}

// notifyName is the setting whose values hold what need not be shown.
const notifyName = "notify"

func shownWays(all []string) []string {
	out := slices.Clone(all)
	for i := range out {
		out[i] = notify.Shown(out[i])
	}
	return out
}

// shown is every setting as TOML, its default where none was set. Whoever looks gives no proof.
func (s settings) shown() []api.Change {
	s.Budgets, s.Retention, s.OnArtifact = s.Budgets.orDefault(), s.Retention.orDefault(), s.onArtifact()
	if s.AutoLock == "" {
		s.AutoLock = autoLockDefault.String()
	}
	s.Notify = shownWays(s.Notify)
	out := []api.Change{}
	v := reflect.ValueOf(s)
	for i, name := range s.keys() {
		out = append(out, api.Change{Setting: name, New: inTOML(v.Field(i).Interface())})
	}
	return out
}
