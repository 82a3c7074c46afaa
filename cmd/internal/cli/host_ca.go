package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

func (a *app) hostCA() *cobra.Command {
	return &cobra.Command{
		Use:   "ca CREDENTIAL",
		Short: "Print what makes a host trust an ssh-ca credential",
		Long: `Print what makes a host trust an ssh-ca credential: the line for its sshd_config, and
one line for a root shell there that installs it. The gateway then signs a certificate
for each single call, valid for two minutes, whose serial number and id are the
action's: sshd logs both. Whom it may log in as is the credential's --principal, or
the user of the host's entry here.`,
		Example: `  ssh-keygen -q -t ed25519 -N '' -f ca && sp secret add ca --kind ssh-ca < ca && shred -u ca
  sp host ca ca`,
		Args: exactly("CREDENTIAL"),
		RunE: func(cmd *cobra.Command, words []string) error {
			var c api.CredentialShown
			if err := a.do(cmd.Context(), api.PathCredentialShow, nil, api.NameArgs{Name: words[0]}, nil, &c); err != nil {
				return err
			}
			if c.Kind != "ssh-ca" || len(c.Rules) == 0 {
				return api.Fail("invalid_request", words[0]+" is no ssh-ca credential")
			}
			file := "/etc/ssh/sallyport-" + c.Name + ".pub"
			line := "TrustedUserCAKeys " + file
			fmt.Fprintf(a.out, "%s\n\n", line)
			fmt.Fprintf(a.out, "echo '%s' > %s && echo '%s' > /etc/ssh/sshd_config.d/sallyport-%s.conf && sshd -t && systemctl reload ssh\n",
				strings.ReplaceAll(c.Rules[0], "'", ""), file, line, c.Name)
			return nil
		},
	}
}
