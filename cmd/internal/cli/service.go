package cli

import (
	"github.com/spf13/cobra"

	"sallyport/cmd/internal/service"
)

func (a *app) service() *cobra.Command {
	var name string
	show := &cobra.Command{
		Use:   "print systemd|launchd",
		Short: "Print the service file of a gateway under a user of its own",
		Long: `Print the service file of a gateway that runs under a user of its own and serves one
other: that user's programs, agents among them, can't read its vault, log or memory,
nor trace or signal it. How to set it up stands at the file's top.`,
		ValidArgs: []string{"systemd", "launchd"},
		Args:      exactly("systemd|launchd"),
	}
	show.Flags().StringVar(&name, "user", "", "the user `NAME` whom it serves; by default who asks")
	show.RunE = func(_ *cobra.Command, args []string) error {
		write := service.Systemd
		switch args[0] {
		case "systemd":
		case "launchd":
			write = service.Launchd
		default:
			return usage("%q is no service manager that there is a file for: systemd or launchd", args[0])
		}
		s, err := service.Lookup(name)
		if err != nil {
			return err
		}
		return write(a.out, s)
	}
	return group("service", "The gateway as a service of the machine", show)
}
