package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

func (a *app) servers() *cobra.Command {
	return group("server", "The supervised MCP servers: which code could act, and what its tools claim", a.serverList(), a.serverShow(), a.serverDigest())
}

func (a *app) serverList() *cobra.Command {
	return listing(a, "ls", "List the supervised servers whose wrappers are connected", api.PathServerList,
		[]column{{"LABEL", words}, {"STATE", fixed}, {"PID", fixed}, {"CHANGED", words}, {"CATALOG", words}, {"RUN", ids}, {"EPOCH", ids}},
		func(s api.Server) []string {
			return []string{s.ServerLabel, s.State, strconv.Itoa(s.ProcessID), strings.Join(s.ArtifactChanged, ","), short(s.Catalog), s.AgentRun, s.ExecutionEpoch}
		})
}

func (a *app) serverShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "show LABEL|EPOCH", Short: "Show one supervised server and its execution record", Args: exactly("LABEL|EPOCH")}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		var s api.Server
		if err := a.do(cmd.Context(), api.PathServerShow, nil, api.IDArgs{ID: words[0]}, nil, &s); err != nil {
			return err
		}
		if asJSON {
			return a.document(s)
		}
		return a.showServer(s)
	}
	return cmd
}

func (a *app) showServer(s api.Server) error {
	pairs := []string{"server", s.ServerLabel, "state", s.State, "run", s.AgentRun, "epoch", s.ExecutionEpoch, "before it", s.OldEpoch,
		"cause", s.Cause, "pid", strconv.Itoa(s.ProcessID), "catalog", s.Catalog}
	if s.Shown != s.Catalog {
		pairs = append(pairs, "host has", s.Shown)
	}
	list := func(label string, lines []string) {
		for _, l := range lines {
			pairs = append(pairs, label, l)
			label = ""
		}
	}
	list("files", s.Lines)
	list("tools", s.Tools)
	list("granted", s.ToolScope)
	list("catalog diff", s.Diff)
	list("unstable", s.Unstable)
	list("unpinned", s.Unpinned)
	facts(a.out, "", pairs...)
	if len(s.Record) > 0 {
		fmt.Fprintln(a.out, "record:")
		return a.showDocument(s.Record)
	}
	return nil
}

// serverLines tell a card's supervised server: which code would act, and what its tools claim.
func serverLines(c api.Approval) (out []cardLine) {
	s := c.Server
	if s == nil {
		return nil
	}
	out = append(out, cardLine{label: "server", text: fmt.Sprintf("%s (pid %d, %s)", s.ServerLabel, s.ProcessID, s.Cause)})
	if s.OldEpoch != "" {
		out = append(out, cardLine{text: "another process spoke for it before: " + s.OldEpoch, alarm: true})
	}
	if s.Workers > 1 {
		out = append(out, cardLine{text: fmt.Sprintf("up to %d workers may speak for it", s.Workers), alarm: true})
	}
	for _, l := range s.Lines {
		out = append(out, cardLine{label: "files", text: l, alarm: true})
	}
	for _, l := range s.Diff {
		out = append(out, cardLine{label: "catalog", text: l, alarm: true})
	}
	for _, l := range s.Unpinned {
		out = append(out, cardLine{label: "unpinned", text: l, alarm: true})
	}
	if len(s.Record) > 0 {
		out = append(out, cardLine{label: "record", text: string(s.Record)})
	}
	for _, d := range c.Defaults {
		out = append(out, cardLine{label: "left out", text: d.Field + ": the server claims the default " + d.Value, alarm: true})
	}
	return out
}

// pathVariables say where a runtime looks for code; no other variable leaves this process.
var pathVariables = []string{"PATH", "HOME", "NODE_PATH", "NODE_OPTIONS", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CLASSPATH", "JAVA_TOOL_OPTIONS",
	"RUBYLIB", "PERL5LIB", "BUN_OPTIONS", "DENO_DIR"}

func (a *app) pathsOf() (env []string) {
	for _, name := range pathVariables {
		if v := a.getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// serverDigest prints what would be measured of a command at its start, in the form of shasum -a 256.
func (a *app) serverDigest() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "digest -- CMD ARG…",
		Short: "Print the digests that identify a server's code, as `shasum -a 256` prints them",
		Long: "Print the digests that identify a server's code, as `shasum -a 256` prints them: its entry, its lockfile, its executable,\n" +
			"and what else it reads first. Nothing is run. Paths are relative to this folder where they lie below it.\n" +
			"What can't be measured is told on stderr.",
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the execution record as one JSON document")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.ArgsLenAtDash() != 0 || len(args) == 0 {
			return usage("%s: the server's command comes after --", cmd.CommandPath())
		}
		dir, err := os.Getwd()
		if err != nil {
			return fmt.Errorf("find this folder: %w", err)
		}
		var d api.Digest
		if err := a.do(cmd.Context(), api.PathServerDigest, nil, api.DigestArgs{LaunchCommand: args, WorkingDirectory: dir, Environment: a.pathsOf()}, nil, &d); err != nil {
			return err
		}
		for _, u := range d.Unpinned {
			a.say("unpinned: %s", escape(u))
		}
		if asJSON {
			return a.document(d.Record)
		}
		if d.TreeDigest != "" {
			a.say("tree %s", escape(d.TreeDigest))
		}
		for line := range strings.Lines(d.Sums) {
			fmt.Fprintln(a.out, escape(strings.TrimSuffix(line, "\n")))
		}
		return nil
	}
	return cmd
}
