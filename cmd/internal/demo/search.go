package demo

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// search looks for both credentials in everything that the story left behind, and then for planted copies of them.
func (d *demo) search(context.Context) error {
	type place struct {
		name string
		text []byte
		may  bool // be empty
	}
	_, bodies, err := d.records(d.review())
	if err != nil {
		return err
	}
	places := []place{
		{"what the agent answered", d.agent.stdout.Bytes(), false}, {"what the shim sent it", d.agent.wire.Bytes(), false},
		{"their diagnostics", []byte(d.agent.stderr.String()), true}, {"the gateway's diagnostics", []byte(d.stage.said.String()), true},
		{"this screen", d.out.kept.Bytes(), false}, {"the decrypted log", bytes.Join(bodies, []byte("\n")), false},
	}
	files, n := 0, 0
	err = filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || e.Name() == AgentCommand {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(d.dir, path)
		places = append(places, place{rel, b, e.Name() != "vault.db"})
		files++
		return err
	})
	if err != nil {
		return err
	}
	seen := searchSeen{}
	for _, p := range places {
		n += len(p.text)
		if len(p.text) == 0 && !p.may {
			seen.empty = append(seen.empty, p.name)
		}
		for _, s := range d.secrets {
			for _, f := range s.in(p.text) {
				seen.found = append(seen.found, fmt.Sprintf("%s is in %s, as %s", s.name, p.name, f))
			}
		}
	}
	seen.bytes = n
	for _, s := range d.secrets {
		for _, f := range s.plants() {
			seen.planted++
			if len(s.in(slices.Concat(d.agent.wire.Bytes(), f.text))) == 0 {
				seen.missed = append(seen.missed, s.name+" as "+f.name)
			}
		}
	}
	d.seen.search = seen
	d.out.say("Searched: all that the agent received, printed and was sent by its shim; this screen; the decrypted log;")
	d.out.say("every file of the vault, database and log. %d bytes, %d files; raw, hex, base64, percent and JSON forms.", n, files)
	return nil
}
