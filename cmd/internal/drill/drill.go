// Package drill is `sp drill`: what must hold when a client crashes or a server is rebuilt, tried on this machine with real
// processes against a gateway of its own in a temporary folder. A drill answers questions, with ids and numbers, in place
// of a label; it is passed only if every answer is good.
//
// The gateway is the spd that would serve this user, made and spoken to by the operators' door alone. The far side is a
// ledger on loopback that counts what arrives. The client is a copy of this very program under another name and digest:
// the gateway takes its own programs for launchers, and a launcher is nobody's client.
package drill

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Options of a drill.
type Options struct {
	SP       string        // the shim's program; it is also what the client is a copy of
	SPD      string        // the gateway's program
	Client   []string      // arguments that make SP be the client (see [Client])
	Command  []string      // the server that the client starts; empty: `SP mcp`
	Version  string        // of this program, for the report
	Report   string        // folder for report.json and report.md; empty: none
	Out      io.Writer     // the answers
	Log      io.Writer     // what the programs say
	Within   time.Duration // the server's written expectation: gone so long after its input ended; 0: what hosts give at most
	Patience time.Duration // for what must come; 0: a minute. It is no measure of speed

	// Broken variants, for tests: what the drill must notice.
	spare    bool     // the client is not killed; the server is not replaced
	careless bool     // the server's code does something else with an omitted argument than its schema says
	noRevoke bool     // the run is not revoked
	moments  []string // nil: all
	python   string   // what runs the drill's own server
}

func (o Options) patience() time.Duration {
	if o.Patience == 0 {
		return time.Minute
	}
	return o.Patience
}

// copyProgram makes the client's program: the bytes of from and a newline, which changes nothing but the digest.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy program: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return fmt.Errorf("copy program: %w", err)
	}
	_, err = io.Copy(out, in)
	if err == nil {
		_, err = out.WriteString("\n")
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("copy program to %s: %w", filepath.Base(to), err)
	}
	return nil
}
