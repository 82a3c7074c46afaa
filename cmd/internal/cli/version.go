package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"sallyport/auditlog"
	"sallyport/cmd/internal/release"
)

func (a *app) version() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "version", Short: "Show sp's version", Args: exactly()}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(*cobra.Command, []string) error {
		if asJSON {
			return a.document(versionNow())
		}
		fmt.Fprintln(a.out, versionLine())
		return nil
	}
	return cmd
}

type versionDocument struct {
	release.Build `json:",embed"`
	LogFormat     int `json:"logFormat"` // of the audit logs that this sp reads and verifies
}

func versionNow() versionDocument { return versionDocument{release.This(), auditlog.Format} }

// versionLine is what version and --version print.
func versionLine() string {
	v := release.This()
	commit := ""
	if len(v.Commit) > 12 {
		commit = " " + v.Commit[:12]
	}
	if v.Modified {
		commit += "+changes"
	}
	return fmt.Sprintf("sp %s%s (%s, %s/%s)", v.Version, commit, v.Go, v.OS, v.Arch)
}

func completion() *cobra.Command {
	cmd := &cobra.Command{
		Use:       "completion SHELL",
		Short:     "Print the completion script of bash, zsh, fish or powershell",
		Example:   "  source <(sp completion bash)",
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args:      exactly("SHELL"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		root, out := cmd.Root(), cmd.OutOrStdout()
		switch args[0] {
		case "bash":
			return root.GenBashCompletionV2(out, true)
		case "zsh":
			return root.GenZshCompletion(out)
		case "fish":
			return root.GenFishCompletion(out, true)
		case "powershell":
			return root.GenPowerShellCompletionWithDesc(out)
		default:
			return usage("unknown shell %q; completion knows bash, zsh, fish and powershell", args[0])
		}
	}
	return cmd
}
