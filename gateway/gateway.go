// Package gateway is the road: it takes an agent's request, decides, asks, records, executes and answers. It holds the
// vault, the log, the database and the executors, and serves two doors: agents (JSON lines) and operators (HTTP).
// pipeline.go is where to begin reading.
package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sallyport/gateway/api"
	"sallyport/gateway/home"
	"sallyport/gateway/notify"
	"sallyport/gateway/proof"
	"sallyport/gateway/store"
	"sallyport/httpexec"
	"sallyport/sshexec"
	"sallyport/vault"
	"sallyport/vault/keychain"
)

// Config is what a gateway is made from. Zero durations and factors take the defaults named.
type Config struct {
	Home         home.Home
	Version      string
	ServeUID     uint32                   // whose processes are answered; 0: this process's own user
	WorkFactor   int                      // scrypt's log2 N for a new vault; cmd/spd says 18
	Roots        *x509.CertPool           // nil: the system's
	ApprovalLife time.Duration            // how long a card waits; 0: api.ApprovalLife
	Grace        time.Duration            // how long calls in flight may finish when they are called back; 0: 25 ms
	Ours         func(digest string) bool // digests of sp and spd, which count as launchers; nil: none
	Keyring      Keyring                  // of a keychain slot; nil: the session's keychain
	Console      Console                  // whether there is a web console
	Log          *slog.Logger             // diagnostics: codes and ids, never a secret; nil: none
}

// Gateway is one daemon's whole state. New makes it complete; Serve runs it; nothing is set later.
type Gateway struct {
	cfg       Config
	vault     *vault.Vault
	log       logbook
	db        *store.DB
	http      *httpexec.Client
	ssh       *sshexec.Pool
	proof     *proof.Passphrase
	book      *registry
	cards     *cards
	past      *past
	sittings  *sittings
	unproved  unproved
	evidence  allowance
	acts      *actions
	denied    *denials
	witnesses witnesses
	tabs      tabs
	signing   signing
	teller    *notify.Teller
	servers   *servers
	state
}

// state is what turns the gateway as a whole.
type state struct {
	life       context.Context // ends when Serve does: calls past their intent live under it
	end        context.CancelFunc
	halt       context.Context // ends when Stop is called
	stop       context.CancelFunc
	stopper    atomic.Pointer[word] // whose word ended halt; nil: a signal did
	tasks      sync.WaitGroup
	door       sync.Mutex   // one init, unlock, lock or stop at a time
	containing sync.Mutex   // one containment at a time; before authority
	looking    sync.Mutex   // one look through the whole log at a time; a leaf
	authority  sync.Mutex   // keeps the outbox's order and the log's the same
	lastTold   uint64       // the record that the last change of authority ends with; under authority
	open       atomic.Bool  // the vault is unlocked, replayed and compared: things may be allowed
	suspends   atomic.Bool  // on_artifact_change: a program exchanged on disk is refused until it starts anew
	opening    atomic.Bool  // unlock is replaying: sealed batches can be read, nothing is allowed yet
	proved     atomic.Int64 // CLOCK_BOOTTIME of the last proof
	unrecorded atomic.Bool  // a loss of authority could not be written: nobody is granted anything
	compiled   atomic.Pointer[targets]
	operator   *run // holds the operator's own calls; it is no agent's, and has no grants
	probes     probes
	letGo      func() error // the home's lock
}

// New opens what is on disk, tells the log what a crash left open, and returns a gateway that is locked or has no vault.
func New(ctx context.Context, c Config) (*Gateway, error) {
	if c.Grace == 0 {
		c.Grace = grace
	}
	if c.ApprovalLife == 0 {
		c.ApprovalLife = api.ApprovalLife * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.ServeUID == 0 {
		c.ServeUID = uint32(os.Geteuid())
	}
	if c.Keyring == nil {
		c.Keyring = keychain.New(home.Product)
	}
	if c.Ours == nil {
		c.Ours = func(string) bool { return false }
	}
	g := &Gateway{cfg: c, book: newRegistry(), cards: newCards(), past: newPast(), sittings: newSittings(), acts: newActions(), denied: newDenials(), servers: newServers(), signing: signing{nonces: proof.NewNonces(boot)}}
	g.cards.known = g.past.known
	g.teller = notify.New(func() int { return len(g.cards.list()) }, func(way string, err error) { g.complain("notify by "+way, err) })
	g.life, g.end = context.WithCancel(context.WithoutCancel(ctx))
	g.halt, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	g.http = httpexec.NewClient(httpexec.ClientOptions{Roots: c.Roots, UserAgent: home.Product, BodyLimit: fileLimit})
	g.ssh = sshexec.NewPool(sshexec.PoolOptions{})
	g.operator = newRun(owner{}, now().Wall)
	g.operator.id = ""
	g.proof = proof.New(boot, g.checkPassphrase)
	if err := g.load(ctx); err != nil {
		return nil, errors.Join(err, g.shut())
	}
	if err := g.openConsole(ctx); err != nil {
		return nil, errors.Join(err, g.shut())
	}
	return g, nil
}

// load takes the home's lock and opens database, vault and log, in that order.
func (g *Gateway) load(ctx context.Context) (err error) {
	if g.letGo, err = g.cfg.Home.Prepare(); err != nil {
		return err
	}
	if g.db, err = store.Open(ctx, g.cfg.Home.Database()); err != nil {
		return err
	}
	if g.vault, err = vault.Open(ctx, g.db); err != nil {
		return err
	}
	if g.vault.State() == vault.Absent {
		return nil // a log without a vault is absent too: the next init replaces it
	}
	return g.recover(ctx)
}

// Serve answers agents and operators on their listeners until ctx ends or Stop is called; then it ends what is under
// way, records that, and closes everything. Every goroutine of the gateway ends in here.
func (g *Gateway) Serve(ctx context.Context, agents *net.UnixListener, operators net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unhook := context.AfterFunc(g.halt, cancel)
	defer unhook()
	// Doors outlive ctx: what was in flight is ended and told to its caller before they close.
	doors, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	var serving errgroup.Group
	serving.Go(func() error { defer cancel(); return g.serveAgents(doors, agents) })
	serving.Go(func() error { defer cancel(); return g.serveOperators(doors, operators) })
	if c := g.tabs.console; c != nil {
		serving.Go(func() error { defer cancel(); return c.Serve(doors) })
	}
	g.task(func() { g.writeBehind(g.life) })
	g.task(func() { g.keepTold(g.life) })
	g.task(func() { g.anchorEvery(g.life, time.Minute) })
	g.task(func() { g.countDenials(g.life) })
	g.task(func() { g.sweepOften(g.life) })
	look := time.NewTicker(autoLockLook)
	defer look.Stop()
	g.task(func() { g.autoLockEvery(g.life, clocks{boot, awake, look.C}) })
	g.task(func() { beforeSleep(g.life, systemBus, func() { g.lockSoon(g.life, "suspend") }) })
	g.task(func() { g.lookAround(g.life) })
	g.task(func() { g.teller.Run(g.life) })
	<-ctx.Done()

	g.door.Lock()
	defer g.door.Unlock()
	ctx = context.WithoutCancel(ctx)
	moved, err := g.shutGate(ctx, "gateway_restarted")
	hangUp()
	err = errors.Join(err, serving.Wait())
	if g.log.w.Load() != nil {
		g.flushDenials(ctx, true)
		err = errors.Join(err, g.stopped(ctx, moved), g.flushTold(ctx))
	}
	return errors.Join(err, g.Close())
}

// Stop makes Serve return.
func (g *Gateway) Stop() { g.stop() }

// Close lets go of files and memory. Serve does it; it is for a gateway that never served.
func (g *Gateway) Close() error {
	g.end()
	g.tasks.Wait()
	return g.shut()
}

// shut lets go of what load opened.
func (g *Gateway) shut() error {
	g.end()
	g.stop()
	g.http.Close()
	g.ssh.Close()
	g.closeConsole()
	err := g.log.close()
	if g.vault != nil {
		g.vault.Lock()
	}
	if g.db != nil {
		err = errors.Join(err, g.db.Close())
	}
	if g.letGo != nil {
		err = errors.Join(err, g.letGo())
	}
	return err
}

// shutGate refuses everything from now on, and waits until nothing is under way. What was in flight is classified and
// recorded with its own parts, which is why the vault is still open then.
// It returns the runs whose grants went with it.
func (g *Gateway) shutGate(ctx context.Context, reason string) ([]*run, error) {
	g.open.Store(false)
	g.endSittings(ctx, func(*sitting) bool { return true }, reason)
	g.signing.enrolments.end()
	g.cards.expire(func(*card) bool { return true }, reason)
	moved := g.voidAll()
	g.probes.stop()
	err := errors.Join(g.flushActions(ctx), g.flushTold(ctx))
	g.ssh.Drop(func(sshexec.PoolKey) bool { return true })
	g.http.Drop(func(httpexec.PoolKey) bool { return true })
	return moved, err
}

// task runs f under the gateway's life; Serve waits for it.
func (g *Gateway) task(f func()) { g.tasks.Go(f) }

// watch runs f once ch is closed, unless the gateway ends first.
func (g *Gateway) watch(ch <-chan struct{}, f func()) {
	g.task(func() {
		select {
		case <-ch:
			f()
		case <-g.life.Done():
		}
	})
}

// complain writes a fault that has no caller to tell it to. Errors of ours hold names and codes, never a secret.
func (g *Gateway) complain(what string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		g.cfg.Log.Error(what, "error", err)
	}
}

// checkPassphrase is proof.Checker over the vault's passphrase slot.
func (g *Gateway) checkPassphrase(ctx context.Context, passphrase []byte) error {
	key := vault.Passphrase(passphrase)
	defer key.Wipe()
	return wrongIs(g.vault.Check(ctx, key))
}

// wrongIs says the vault's "wrong key" as the proof's limits know it.
func wrongIs(err error) error {
	if errors.Is(err, vault.ErrWrongKey) {
		return fmt.Errorf("%w: %w", proof.ErrWrong, err)
	}
	return err
}
