package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
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
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func versionNow() versionDocument {
	v := versionDocument{"unknown", runtime.Version(), runtime.GOOS, runtime.GOARCH}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		v.Version = b.Main.Version
	}
	return v
}

// versionLine is what version and --version print.
func versionLine() string {
	v := versionNow()
	return fmt.Sprintf("sp %s (%s, %s/%s)", v.Version, v.Go, v.OS, v.Arch)
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
