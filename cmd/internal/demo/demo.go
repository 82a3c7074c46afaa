package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"sallyport/gateway/home"
)

// Options of one demo.
type Options struct {
	Out     io.Writer // where the story is told; coloured if it is a terminal and NO_COLOR is unset
	Stay    bool      // leave everything up until ctx ends
	Version string
	Ours    func(exeDigest string) bool // the programs that count as launchers, as for the daemon
	Listen  func(home.Home) (agents *net.UnixListener, operators net.Listener, err error)
}

// limit bounds the story; it takes a second or two.
const limit = time.Minute

// demo is one telling of the story.
type demo struct {
	o       Options
	out     *screen
	steps   []step
	dir     string // the temporary folder
	exe     string // this program's own file: as `spd sp …` it is the shim
	stage   *stage
	op      *operator
	agent   *child
	secrets []secret
	seen    evidence
}

// step is one chapter. Its checks are those of the table that name it.
type step struct {
	name  string
	title string
	do    func(ctx context.Context) error
}

// Run tells the story and returns the exit status: 0 only if all of it held. With Stay it then waits for ctx to end.
func Run(ctx context.Context, o Options) int {
	// A reader that goes away (`spd demo | head`) ends the telling, not the story: caught, the signal becomes an error
	// of a write, and what runs is still ended in order.
	gone := make(chan os.Signal, 1)
	signal.Notify(gone, syscall.SIGPIPE)
	defer signal.Stop(gone)
	return newDemo(o).run(ctx)
}

func newDemo(o Options) *demo {
	d := &demo{o: o, out: newScreen(o.Out), stage: &stage{}}
	d.steps = []step{
		{"vault", "A vault, and the gateway that alone can open it", d.openVault},
		{"places", "Two places that ask for a credential", d.openPlaces},
		{"secrets", "The operator stores two credentials", d.storeSecrets},
		{"agent", "An agent that has none", d.startAgent},
		{"http", "The agent asks for an HTTP call", d.callHTTP},
		{"ssh", "The agent asks for a command on a host", d.callSSH},
		{"revoke", "The operator revokes the run", d.revoke},
		{"refused", "The agent tries once more", d.callRevoked},
		{"log", "What the log says", d.readLog},
		{"search", "Who has seen the credentials", d.search},
		{"verify", "A reviewer verifies the log, with files alone", d.verify},
		{"tamper", "Somebody changes one byte of it", d.tamper},
	}
	return d
}

func (d *demo) run(ctx context.Context) (status int) {
	dir, err := os.MkdirTemp("", "sallyport-demo-")
	if err != nil {
		d.out.bad("demo", err.Error())
		return 1
	}
	d.dir = dir
	defer func() {
		if err := errors.Join(d.close(), os.RemoveAll(dir)); err != nil {
			d.out.bad("clean-up", err.Error())
			status = 1
		}
	}()
	if d.exe, err = os.Executable(); err != nil {
		d.out.bad("demo", err.Error())
		return 1
	}
	d.out.title("An agent acts with two credentials that it never holds")
	d.out.say("Everything here runs for real, in %s, and talks to loopback alone.", dir)

	story, cancel := context.WithTimeout(ctx, limit)
	err = d.tell(story)
	cancel()
	switch {
	case ctx.Err() != nil:
		d.out.line("\ninterrupted")
		return 1
	case err != nil:
		d.out.line("\nThe story ended there.")
		status = 1
	default:
		status = d.conclude(d.seen)
	}
	if status != 0 {
		d.explain()
		return status
	}
	if d.o.Stay {
		return d.stay(ctx)
	}
	return 0
}

// tell walks the steps, and shows after each what came of its checks. A step that cannot be done ends the story.
func (d *demo) tell(ctx context.Context) error {
	for _, s := range d.steps {
		d.out.step(s.title)
		if err := s.do(ctx); err != nil {
			d.out.bad(s.name, err.Error())
			return fmt.Errorf("%s: %w", s.name, err)
		}
		for _, f := range judge(d.seen) {
			if f.step != s.name {
				continue
			}
			if f.found == "" {
				d.out.good(f.claim)
			} else {
				d.out.bad(f.name, f.found)
			}
		}
	}
	return nil
}

// conclude says what came of all checks over the evidence, and returns the exit status.
func (d *demo) conclude(e evidence) int {
	all := judge(e)
	var failed []string
	for _, f := range all {
		if f.found != "" {
			failed = append(failed, f.name)
		}
	}
	d.out.line("")
	if len(failed) > 0 {
		d.out.bad(fmt.Sprintf("%d of %d checks did not hold", len(failed), len(all)), strings.Join(failed, ", "))
		return 1
	}
	d.out.good(fmt.Sprintf("All %d checks held.", len(all)))
	return 0
}

// explain shows what the programs themselves said of a story that went wrong.
func (d *demo) explain() {
	if said := d.stage.said.String(); said != "" {
		d.out.quote("The gateway itself said:", said)
	}
	if d.agent == nil {
		return
	}
	if said := d.agent.stderr.String(); said != "" {
		d.out.quote("The agent and its shim said:", said)
	}
}

// close ends what still runs: the agent first, so that its end is recorded too.
func (d *demo) close() error {
	var err error
	if d.agent != nil {
		err = d.agent.close()
	}
	return errors.Join(err, d.stage.close())
}
