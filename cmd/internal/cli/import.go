package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
)

func (a *app) secretImport() *cobra.Command {
	var (
		format, bind   string
		dryRun, asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Take credentials out of an env file or a netrc",
		Long: `Take credentials out of an env file (KEY=value lines, with export and quotes) or a
netrc; - is stdin. Shows first what is taken and what is not, and why; then asks for the
proof. Nothing is taken without rules. They come from the preset that knows the value's
name (GITHUB_TOKEN, OPENAI_API_KEY, the AWS_ variables …; ` + "`sp secret presets`" + `), or from
--bind, a TOML file with a table for each credential, as in ` + "`sp apply`" + `, that names its
value in FILE with "from":

  [credentials.inventory]
  from = "INVENTORY_KEY"        # or a netrc's machine; its login is the user's name
  kind = "header"
  header = "X-Api-Key"
  allow = ["GET https://inventory.example.com/v1/**"]

FILE itself is left alone: delete it once everything works. A value that was ever in
reach of an agent is better replaced at its service, and then with ` + "`sp secret rotate`" + `.`,
		Example: `  sp secret import .env --dry-run
  sp secret import ~/.netrc --bind bindings.toml`,
		Args: exactly("FILE"),
	}
	ask := a.asker(cmd)
	f := cmd.Flags()
	f.StringVar(&format, "format", "", "env or netrc (default: by the file's name)")
	f.StringVar(&bind, "bind", "", "what credentials become of which values: a TOML `FILE`")
	f.BoolVar(&dryRun, "dry-run", false, "only show what would be taken; needs no proof")
	f.BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		ctx, file := cmd.Context(), words[0]
		if format == "" {
			format = "env"
			if base := filepath.Base(file); base == ".netrc" || base == "_netrc" || base == "netrc" {
				format = "netrc"
			}
		}
		if format != "env" && format != "netrc" {
			return usage("--format is env or netrc")
		}
		if file == "-" && ask.fd == 0 || file == "-" && bind == "-" || bind == "-" && ask.fd == 0 {
			return usage("stdin can hold one thing only")
		}
		if err := ask.early(); err != nil {
			return err
		}
		x := importing{args: api.ImportArgs{Format: format}}
		defer func() { clear(x.bytes) }()
		if err := x.read(a, file, bind); err != nil {
			return err
		}
		plan, err := x.send(ctx, a, api.PathInspect, nil)
		if err != nil {
			return err
		}
		if !asJSON {
			a.showImport(plan)
		}
		if len(plan.Taken) > 0 && !dryRun {
			proof, err := ask.proof(ctx)
			if err != nil {
				return err
			}
			x.args.Plan = plan.Digest
			if plan, err = x.send(ctx, a, api.PathImport, proof); err != nil {
				return err
			}
		}
		return a.finishImport(plan, file, dryRun, asJSON)
	}
	return cmd
}

// importing is a file and its bindings on their way.
type importing struct {
	args  api.ImportArgs
	bytes []byte
}

func (x *importing) read(a *app, file, bind string) (err error) {
	if x.bytes, err = a.readInput(file); err != nil {
		return err
	}
	x.args.FileLength = len(x.bytes)
	if bind == "" {
		return nil
	}
	b, err := a.readInput(bind)
	if err != nil {
		return err
	}
	all := append(append(make([]byte, 0, len(x.bytes)+len(b)), x.bytes...), b...)
	clear(x.bytes)
	x.bytes = all
	return nil
}

func (x *importing) send(ctx context.Context, a *app, path string, proof *api.Proof) (p api.ImportPlan, err error) {
	salted := client.Salt(x.bytes)
	x.args.ValueLength, x.args.ValueDigest = salted.Len(), salted.Digest()
	return p, a.do(ctx, path, proof, x.args, salted, &p)
}

func (a *app) showImport(p api.ImportPlan) {
	for _, t := range p.Taken {
		how := t.Credential.Kind
		if t.Preset != "" {
			how += ", preset " + t.Preset
		}
		fmt.Fprintf(a.out, "take %s (line %d) as %s (%s)\n", escape(t.From), t.Line, escape(t.Credential.Name), escape(how))
		a.showRules(t.Credential)
	}
	for _, r := range p.Refused {
		from := r.From
		if from == "" {
			from = "a line"
		}
		fmt.Fprintf(a.out, "leave %s (line %d): %s\n", escape(from), r.Line, escape(r.Reason))
	}
}

func (a *app) finishImport(p api.ImportPlan, file string, dry, asJSON bool) error {
	if asJSON {
		if err := a.document(p); err != nil {
			return err
		}
	}
	names := make([]string, len(p.Taken))
	for i, t := range p.Taken {
		names[i] = t.Credential.Name
	}
	switch {
	case len(names) == 0:
		return &adviceError{api.Fail("not_found", "nothing in the file can be taken"), "say with --bind what its values may be used for"}
	case dry:
		a.say("nothing was stored")
	default:
		if !asJSON {
			fmt.Fprintf(a.out, "stored %s\n", escape(strings.Join(names, ", ")))
		}
		if file != "-" {
			a.say("sp: the values still lie in %s, where an agent can read them: once all works, take them out or delete it", escape(file))
		}
	}
	return nil
}
