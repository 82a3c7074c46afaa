package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
)

func (a *app) apply() *cobra.Command {
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "apply FILE [NAME=fd:N]…",
		Short: "Make credentials, hosts and settings what a file says, under one proof",
		Long: `Make credentials, hosts and settings what FILE says (TOML; - is stdin), under one
proof: all of it, or none. The plan is shown first. What the file does not name stays as
it is, so applying it twice changes nothing the second time.

A file never holds a value. The value of a credential that is new is asked for, or read
from a descriptor with NAME=fd:N; a key file's passphrase with NAME:passphrase=fd:N. A
credential that is there already keeps its value (` + "`sp secret rotate`" + ` changes it). A
new host is logged in to once, to find out its account's shell.

  [credentials.github]          # the flags of ` + "`sp secret add`" + `, with _ for -
  kind = "bearer"               # or preset = "github"
  account = "ann"
  allow = ["GET,POST https://api.github.com/repos/**"]

  [credentials.deploy-key]
  kind = "ssh-key"

  [hosts.web]                   # the flags of ` + "`sp host add`" + `
  address = "web.example.org:22"
  user = "deploy"
  credential = "deploy-key"
  host_key = "ssh-ed25519 AAAA…"
  allow_argv = [["systemctl", "status", "*"]]

  [settings]
  audit_mirror = "/mnt/other-disk/audit"   # a folder that gets a copy of the log; made
                                           # if it is not there
  recipients = ["age1pq1…"]                # who can read the log from now on, besides
                                           # the vault's recovery identity: age1pq1 only
  witness = ["https://witness.example witness.example+1a2b3c4d+BASE64"]
  auto_lock = "8h"                         # locks so long after the last proof; or off
  budgets = {epoch = 1, session = 2, installation = 8, queue = 32}   # cards at a time
  retention = {results = "24h", files = "24h", rows = "720h"}        # of actions
  on_artifact_change = "suspend"           # or note: a program whose files changed is
                                           # refused, or only noted, until it restarts
  notify = ["desktop", "ntfy https://ntfy.example/TOPIC", "webhook https://…"]
                                           # tell that cards wait, and nothing of them`,
		Example: `  sp apply sallyport.toml --dry-run
  sp apply sallyport.toml github=fd:4 deploy-key=fd:5 4< token 5< id_ed25519`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("FILE is missing")
			}
			return nil
		},
	}
	ask := a.asker(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would change; needs no proof")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array of the changes")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		ctx := cmd.Context()
		given, err := descriptors(words[1:])
		if err != nil {
			return err
		}
		if words[0] == "-" && (ask.fd == 0 || given.uses(0)) {
			return usage("stdin holds the file: give the rest on other descriptors")
		}
		if err := ask.early(); err != nil {
			return err
		}
		file, err := a.readInput(words[0])
		if err != nil {
			return err
		}
		plan, err := a.plan(ctx, file)
		if err != nil {
			return err
		}
		if !asJSON {
			a.showPlan(plan, dryRun)
		}
		if dryRun || len(plan.Changes) == 0 {
			if asJSON {
				return a.document(plan.Changes)
			}
			return nil
		}
		out, err := a.carryOut(ctx, ask, file, plan, given)
		if err != nil {
			return err
		}
		if asJSON {
			return a.document(out.Changes)
		}
		fmt.Fprintln(a.out, "done")
		return a.showEnded(out.Ended)
	}
	return cmd
}

// plan asks what a file would change.
func (a *app) plan(ctx context.Context, file []byte) (p api.Plan, err error) {
	salted := client.Salt(file)
	return p, a.do(ctx, api.PathPlan, nil, api.PlanArgs{ValueLength: salted.Len(), ValueDigest: salted.Digest()}, salted, &p)
}

// carryOut collects the values that a plan wants, and the proof, and has it done.
func (a *app) carryOut(ctx context.Context, ask *asker, file []byte, plan api.Plan, given fds) (out api.Applied, err error) {
	args := api.ApplyArgs{Plan: plan.Digest, FileLength: len(file)}
	all := append([]byte(nil), file...)
	defer func() { clear(all) }()
	for _, w := range plan.Values {
		value, phrase, err := a.wantedValue(ctx, ask, w, given)
		if err != nil {
			return out, err
		}
		grown := append(append(append(make([]byte, 0, len(all)+len(value)+len(phrase)), all...), value...), phrase...)
		clear(all)
		all = grown
		args.Values = append(args.Values, api.GivenValue{Name: w.Name, Length: len(value) + len(phrase), PassphraseLength: len(phrase)})
		clear(value)
		clear(phrase)
	}
	for name := range given {
		a.say("sp: %s is not wanted; its descriptor was not read", escape(name))
	}
	proof, err := ask.proof(ctx)
	if err != nil {
		return out, err
	}
	salted := client.Salt(all)
	args.ValueLength, args.ValueDigest = salted.Len(), salted.Digest()
	return out, a.do(ctx, api.PathApply, proof, args, salted, &out)
}

// wantedValue reads one value, from its descriptor or at the terminal, and takes what it used out of given.
func (a *app) wantedValue(ctx context.Context, ask *asker, w api.Wanted, given fds) (value, phrase []byte, err error) {
	if n, ok := given.take(w.Name + ":passphrase"); ok {
		if phrase, err = a.readFD(n); err != nil {
			return nil, nil, err
		}
	}
	if n, ok := given.take(w.Name); ok {
		f, err := a.fd(n)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		value, err = readSecret(f, api.ValueLimit, fmt.Sprintf("descriptor %d", n))
		return value, phrase, err
	}
	if severalLines(w.Kind) {
		return nil, nil, usage("%s is a key file: give it as %s=fd:N, as in `sp apply FILE %s=fd:4 4< KEY`", w.Name, w.Name, w.Name)
	}
	if err := ask.reach(ctx); err != nil {
		return nil, nil, err
	}
	value, err = a.prompt(ctx, w.Name+" (value): ")
	if e, ok := err.(*api.Error); ok && e.Code == "proof_required" {
		err = usage("there is no terminal to ask for the value of %s at: give it as %s=fd:N", w.Name, w.Name)
	}
	if err == nil && len(value) == 0 {
		err = usage("the value of %s is empty", w.Name)
	}
	return value, phrase, err
}

// fds are descriptors by what they hold.
type fds map[string]int

func (f fds) take(name string) (n int, ok bool) {
	n, ok = f[name]
	delete(f, name)
	return n, ok
}

func (f fds) uses(n int) bool {
	for _, m := range f {
		if m == n {
			return true
		}
	}
	return false
}

// descriptors reads NAME=fd:N words. What is no such word is not shown: it may be a value.
func descriptors(words []string) (fds, error) {
	out := fds{}
	for _, word := range words {
		name, fd, ok := strings.Cut(word, "=fd:")
		n, err := strconv.Atoi(fd)
		if !ok || err != nil || n < 0 || name == "" {
			return nil, usage("after FILE comes NAME=fd:N; a value is never an argument")
		}
		if _, twice := out[name]; twice || out.uses(n) {
			return nil, usage("%s: a name or a descriptor twice", name)
		}
		out[name] = n
	}
	return out, nil
}
