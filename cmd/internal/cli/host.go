package cli

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

func (a *app) host() *cobra.Command {
	return group("host", "The SSH hosts that agents may be let to",
		a.hostAdd(), a.hostList(), a.hostShow(), a.hostCA(),
		a.remove("host", "Every grant that names its credential ends, and so do the calls under way by them.", api.PathTargetRemove))
}

func (a *app) hostAdd() *cobra.Command {
	var (
		args api.HostArgs
		key  string
		argv []string
	)
	cmd := &cobra.Command{
		Use:   "add NAME --address HOST:PORT --user USER --credential CRED (--host-key FILE | --enrol)",
		Short: "Add an SSH host, its key pinned",
		Long: `Add an SSH host, its key pinned: from a .pub file or known_hosts lines, or with
--enrol as the host presents it now, to be compared with the host's own word. sp logs in
once, to see whether the account's shell takes quoted arguments; one that doesn't is
"exact", and its rules hold no *.`,
		Example: `  sp host add web --address web.example.org:22 --user deploy --credential deploy-key \
     --host-key web.pub --allow-argv '["systemctl","status","*"]'
  sp host add db --address db.internal:22 --jump web --user backup --credential deploy-key --enrol \
     --allow-network 10.0.0.0/8 --allow-download /var/backups`,
		Args: exactly("NAME"),
	}
	ask := a.asker(cmd)
	f := cmd.Flags()
	f.StringVar(&args.Address, "address", "", "`HOST:PORT`")
	f.StringVar(&args.User, "user", "", "the user's `NAME` on the host")
	f.StringVar(&args.Credential, "credential", "", "the `NAME` of an ssh-key, ssh-password or ssh-ca credential")
	f.StringVar(&key, "host-key", "", "pin the key in `FILE`: a .pub file or known_hosts lines")
	f.BoolVar(&args.Enrol, "enrol", false, "ask the host for its key and pin that")
	f.StringArrayVar(&args.AllowNetwork, "allow-network", nil, "a private or loopback network the host may be in: `CIDR`, as in 127.0.0.1/32 (repeatable)")
	f.StringArrayVar(&argv, "allow-argv", nil, "a command agents may ask for, a `JSON` array of words; * is one word with no - before it (repeatable)")
	f.BoolVar(&args.AllowShell, "allow-shell", false, "also raw shell strings, each asked for")
	f.StringVar(&args.Jump, "jump", "", "reach it through another stored host: its `NAME`")
	f.StringVar(&args.Prompt, "prompt", "", "with an ssh-password: the `PATTERN` (RE2) of the one prompt that gets it; by default \"Password:\" in any case")
	f.StringArrayVar(&args.AllowUpload, "allow-upload", nil, "a folder that files may be written to, and below it: `DIR` (repeatable)")
	f.StringArrayVar(&args.AllowDownload, "allow-download", nil, "a folder that files may be read from, and below it: `DIR` (repeatable)")
	f.StringArrayVar(&args.AllowGit, "allow-git", nil, "a repository for \"sp git-ssh\": its `PATH` as git writes it (repeatable)")
	f.StringArrayVar(&args.GitRules, "git-rule", nil, "`RULE` for pushes: no-push, create-only or no-delete and a full ref, * is one segment (repeatable)")
	f.StringVar(&args.Confirm, "confirm", "", "never: quiet inside a grant (default); click: a person approves each use; passkey: and signs each with a passkey")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		args.Name = words[0]
		if err := hostArgs(&args, key, argv); err != nil {
			return err
		}
		proof, err := ask.proof(cmd.Context())
		if err != nil {
			return err
		}
		var h api.Host
		if err := a.do(cmd.Context(), api.PathTargetAdd, proof, args, nil, &h); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "added %s: %s@%s\n", escape(h.Name), escape(h.User), escape(h.Address))
		for _, k := range h.HostKeys {
			fmt.Fprintf(a.out, "  host key %s\n", escape(k))
		}
		if args.Enrol {
			a.say("compare the host key with what the host itself says (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub)")
		}
		return nil
	}
	return cmd
}

// hostArgs completes args from the flags that are no plain words.
func hostArgs(args *api.HostArgs, key string, argv []string) error {
	switch {
	case args.Address == "":
		return usage("--address is missing")
	case args.User == "":
		return usage("--user is missing")
	case args.Credential == "":
		return usage("--credential is missing")
	case (key == "") == !args.Enrol:
		return usage("give exactly one of --host-key and --enrol")
	}
	if key != "" {
		b, err := readFile(key)
		if err != nil {
			return err
		}
		args.HostKey = string(b)
	}
	for _, text := range argv {
		var words []string
		if err := json.Unmarshal([]byte(text), &words); err != nil || len(words) == 0 {
			return usage("--allow-argv %s is no JSON array of words", text)
		}
		args.AllowArgv = append(args.AllowArgv, words)
	}
	return nil
}

func (a *app) hostList() *cobra.Command {
	return listing(a, "ls", "List the hosts", api.PathTargetList,
		[]column{{"NAME", vital}, {"ADDRESS", words}, {"USER", words}, {"CREDENTIAL", words}, {"SHELL", fixed}, {"HOST KEYS", words}, {"RULES", words}},
		func(h api.Host) []string {
			return []string{h.Name, h.Address, h.User, h.Credential, h.Shell, strings.Join(h.HostKeys, "; "), strings.Join(h.Rules, "; ")}
		})
}

func (a *app) hostShow() *cobra.Command {
	return showing(a, "Show a host: its pinned keys, and what agents may do there", api.PathTargetShow, func(h api.HostShown) error {
		pairs := []string{"name", h.Name, "address", h.Address, "user", h.User, "credential", h.Credential, "jump", h.Jump, "prompt", h.Prompt, "confirm", h.Confirm, "shell", h.Shell}
		for _, k := range h.HostKeys {
			pairs = append(pairs, "host key", k)
		}
		for _, r := range h.Rules {
			pairs = append(pairs, "may", r)
		}
		for _, n := range h.AllowNetwork {
			pairs = append(pairs, "network", n)
		}
		for _, g := range h.Grants {
			pairs = append(pairs, "grant", g)
		}
		facts(a.out, "", pairs...)
		return nil
	})
}
