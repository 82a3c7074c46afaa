package drill

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/client"
	"sallyport/gateway/home"
)

// CredentialName is the ledger's credential, and so its target.
const CredentialName = "ledger"

// lookEvery is how often something is looked at that nothing tells of.
const lookEvery = 50 * time.Millisecond

// Stage is a gateway in a folder of its own, with a ready vault, and what it reaches. The operator is this process.
type Stage struct {
	Dir    string // temporary; SALLYPORT_HOME below it
	Home   home.Home
	Ledger *Ledger
	Made   api.Created

	o          Options
	spd        *exec.Cmd
	ended      chan struct{} // spd has gone
	door       *client.Client
	passphrase string
	pin        []byte // audit.pub as it was when the log was made
	sitting    string
}

// NewStage starts all of it. Close it whatever becomes of the drill.
func NewStage(ctx context.Context, o Options) (s *Stage, err error) {
	dir, err := os.MkdirTemp("", "sp-drill")
	if err != nil {
		return nil, fmt.Errorf("set stage: %w", err)
	}
	s = &Stage{Dir: dir, o: o, passphrase: rand.Text()}
	defer func() {
		if err != nil {
			s.Close()
			s = nil
		}
	}()
	if s.Ledger, err = NewLedger(); err != nil {
		return s, err
	}
	at := filepath.Join(dir, "h")
	if err := os.Mkdir(at, 0o700); err != nil {
		return s, fmt.Errorf("set stage: %w", err)
	}
	if s.Home, err = home.Find(func(name string) string { return map[string]string{home.EnvHome: at}[name] }); err != nil {
		return s, fmt.Errorf("set stage: %w", err)
	}
	if err := copyProgram(o.SP, s.clientProgram()); err != nil {
		return s, err
	}
	if err := s.start(ctx); err != nil {
		return s, err
	}
	return s, s.furnish(ctx)
}

func (s *Stage) clientProgram() string { return filepath.Join(s.Dir, "drill-client") }

// Env is the environment of whatever the drill starts: nothing of the caller's but PATH.
func (s *Stage) Env() []string {
	return []string{home.EnvHome + "=" + s.Home.Data(), "HOME=" + s.Dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + s.Dir}
}

// start runs spd and waits until it answers.
func (s *Stage) start(ctx context.Context) error {
	s.spd = exec.Command(s.o.SPD, "serve")
	s.spd.Env, s.spd.Dir, s.spd.Stdout, s.spd.Stderr = s.Env(), "/", s.o.Log, s.o.Log
	if err := s.spd.Start(); err != nil {
		return fmt.Errorf("start spd: %w", err)
	}
	s.ended = make(chan struct{})
	go func() { // ends with spd
		s.spd.Wait()
		close(s.ended)
	}()
	s.door = client.Operator(s.Home)
	return s.Until(ctx, "spd answers", func() (bool, error) {
		select {
		case <-s.ended:
			return false, errors.New("spd ended at once")
		default:
		}
		return s.door.Do(ctx, api.PathStatus, nil, nil, nil, new(api.Status)) == nil, nil
	})
}

// furnish makes the vault, the ledger's credential, and a sitting that answers cards.
func (s *Stage) furnish(ctx context.Context) error {
	if err := s.Operator(ctx, api.PathInit, nil, &s.Made); err != nil {
		return err
	}
	pin, err := os.ReadFile(s.Made.AuditPub)
	if err != nil {
		return fmt.Errorf("read audit.pub: %w", err)
	}
	s.pin = pin
	value := client.Salt([]byte(rand.Text()))
	args := api.CredentialArgs{Name: CredentialName, Kind: "bearer", ValueLength: value.Len(), ValueDigest: value.Digest(), Rules: api.HTTPRules{
		Allow: []string{"GET,POST,DELETE " + s.Ledger.URL() + "/jobs/**"}, AllowHTTP: true, AllowNetwork: []string{"127.0.0.0/8"},
		IdempotencyHeader: "Idempotency-Key", RemoteJob: api.RemoteJob{JobID: "json:/id", JobStatus: "GET /jobs/{id}", JobCancel: "DELETE /jobs/{id}"}}}
	if err := s.door.Do(ctx, api.PathCredentialAdd, s.proof(), args, value, nil); err != nil {
		return fmt.Errorf("add credential: %w", err)
	}
	return s.sit(ctx)
}

func (s *Stage) proof() *api.Proof { return &api.Proof{Kind: "passphrase", Value: s.passphrase} }

// Operator is one command of the operator's, with the proof where its route wants one.
func (s *Stage) Operator(ctx context.Context, path string, args, out any) error {
	var p *api.Proof
	if i := slices.IndexFunc(api.Routes, func(r api.Route) bool { return r.Path == path }); i >= 0 && api.Routes[i].Proof {
		p = s.proof()
	}
	if err := s.door.Do(ctx, path, p, args, nil, out); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Cards lists what waits for the operator.
func (s *Stage) Cards(ctx context.Context) (cards []api.Approval, err error) {
	return cards, s.Operator(ctx, api.PathApprovalList, nil, &cards)
}

// Approve says yes to one card, until its run ends.
func (s *Stage) Approve(ctx context.Context, c api.Approval) error {
	args := api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run"}
	if err := s.door.Do(ctx, api.PathApprovalGrant, &api.Proof{Kind: "sitting", Value: s.sitting}, args, nil, nil); err != nil {
		return fmt.Errorf("approve: %w", err)
	}
	return nil
}

// Card waits for the next card of a tool, and of a target where one is named.
func (s *Stage) Card(ctx context.Context, tool, target string) (card api.Approval, err error) {
	return card, s.Until(ctx, "a card of "+tool, func() (bool, error) {
		cards, err := s.Cards(ctx)
		i := slices.IndexFunc(cards, func(c api.Approval) bool { return c.Tool == tool && (target == "" || c.Target == target) })
		if i >= 0 {
			card = cards[i]
		}
		return i >= 0, err
	})
}

// Records is the log so far, verified and decrypted with the reader's identity.
func (s *Stage) Records() (items []event.Item, err error) {
	for r, err := range auditlog.Read(os.DirFS(filepath.Join(s.Home.Log(), "audit")), s.pin, s.Made.ReaderIdentity) {
		if err != nil {
			return nil, fmt.Errorf("read log: %w", err)
		}
		e, err := event.Decode(r.Body)
		if err != nil {
			return nil, fmt.Errorf("read log: record %d: %w", r.Seq, err)
		}
		items = append(items, event.Item{Seq: r.Seq, Time: r.Time, Event: e})
	}
	return items, nil
}

// Until looks until seen is true, an error ends it, or patience does.
func (s *Stage) Until(ctx context.Context, what string, seen func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.patience())
	defer cancel()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		ok, err := seen()
		if ok || err != nil {
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		}
	}
}

// Close ends spd, the ledger, and the folder.
func (s *Stage) Close() error {
	if s.spd != nil && s.ended != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		s.door.Do(ctx, api.PathStop, nil, nil, nil, nil)
		select {
		case <-s.ended:
		case <-ctx.Done():
			s.spd.Process.Kill()
			<-s.ended
		}
		cancel()
		s.door.Close()
	}
	if s.Ledger != nil {
		s.Ledger.Close()
	}
	return os.RemoveAll(s.Dir)
}

// Crash ends spd without a word, and returns when it is gone.
func (s *Stage) Crash() error {
	if err := s.spd.Process.Kill(); err != nil {
		return fmt.Errorf("kill spd: %w", err)
	}
	<-s.ended
	s.door.Close()
	return nil
}

// Wake starts spd after a Crash, and leaves the vault locked.
func (s *Stage) Wake(ctx context.Context) error { return s.start(ctx) }

// Again starts spd after a Crash and unlocks the vault. Every grant is void then.
func (s *Stage) Again(ctx context.Context) error {
	if err := s.Wake(ctx); err != nil {
		return err
	}
	if err := s.Operator(ctx, api.PathUnlock, nil, nil); err != nil {
		return err
	}
	return s.sit(ctx)
}

// sit opens the sitting that answers cards.
func (s *Stage) sit(ctx context.Context) error {
	var sit api.Sitting
	err := s.Operator(ctx, api.PathSittingOpen, nil, &sit)
	s.sitting = sit.ID
	return err
}
