package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

var witnessColumns = []column{{"URL", vital}, {"NAME", words}, {"SIZE", fixed}, {"AT", times}, {"ERROR", words}}

func witnessRow(w api.Witness) []string {
	size := ""
	if w.Size > 0 {
		size = strconv.FormatInt(w.Size, 10)
	}
	return []string{w.URL, w.Name, size, stamp(w.At), w.Error}
}

func (a *app) witness() *cobra.Command {
	return group("witness", "The witnesses that cosign the log's checkpoints", a.witnessAdd(),
		listing(a, "ls", "List the witnesses and what they last signed", api.PathWitnessList, witnessColumns, witnessRow),
		a.witnessRemove())
}

func (a *app) witnessAdd() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "add URL --key VKEY",
		Short: "Let a witness cosign the log's checkpoints",
		Long: `Let a witness (C2SP tlog-witness) cosign the log's checkpoints. It never sees the log:
it remembers how large it was, and signs a checkpoint only with a proof that nothing
before was changed. What sp audit checkpoint prints has its signature then.`,
		Example: "  sp audit witness add https://witness.example --key witness.example+1a2b3c4d+BASE64",
		Args:    exactly("URL"),
	}
	ask := a.asker(cmd)
	cmd.Flags().StringVar(&key, "key", "", "the witness's verifier key, as it publishes it: `NAME+HASH+BASE64`")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		if key == "" {
			return usage("--key is missing")
		}
		return a.changeWitnesses(cmd, ask, api.PathWitnessAdd, api.WitnessArgs{URL: words[0], Key: key})
	}
	return cmd
}

func (a *app) witnessRemove() *cobra.Command {
	cmd := &cobra.Command{Use: "rm URL", Short: "Ask a witness no more", Args: exactly("URL")}
	ask := a.asker(cmd)
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		return a.changeWitnesses(cmd, ask, api.PathWitnessRemove, api.URLArgs{URL: words[0]})
	}
	return cmd
}

// changeWitnesses adds or removes one, and shows which there are now.
func (a *app) changeWitnesses(cmd *cobra.Command, ask *asker, path string, args any) error {
	proof, err := ask.proof(cmd.Context())
	if err != nil {
		return err
	}
	var all []api.Witness
	if err := a.do(cmd.Context(), path, proof, args, nil, &all); err != nil {
		return err
	}
	return show(a, all, false, witnessColumns, witnessRow)
}
