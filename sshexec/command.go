package sshexec

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// Limits of one command.
const (
	MaxArgv           = 256       // elements
	MaxArgvBytes      = 64 << 10  // all elements, or the shell string
	MaxLine           = 120 << 10 // after quoting; Linux takes 128 KiB for one argument of sh -c
	MaxStdin          = 16 << 20
	DefaultTimeout    = 120 // seconds
	MaxTimeoutSeconds = 3600
)

// Input is a command as asked for: exactly one of Argv and Shell.
type Input struct {
	Argv           []string
	Shell          string
	Stdin          []byte
	TimeoutSeconds int // 0: DefaultTimeout
}

// Command is a checked command; it never changes. Its stdin is not copied.
type Command struct {
	argv    []string
	shell   string
	line    string
	stdin   []byte
	timeout int
}

// ParseCommand checks in. Every error is a *RequestError invalid_request.
func ParseCommand(in Input) (Command, error) {
	c := Command{argv: slices.Clone(in.Argv), shell: in.Shell, stdin: in.Stdin, timeout: in.TimeoutSeconds}
	switch {
	case len(in.Argv) == 0 && in.Shell == "":
		return Command{}, invalid("argv is empty")
	case len(in.Argv) > 0 && in.Shell != "":
		return Command{}, invalid("argv and shell exclude each other")
	case in.Shell != "":
		if err := checkText("shell", in.Shell); err != nil {
			return Command{}, err
		}
		if len(in.Shell) > MaxArgvBytes {
			return Command{}, invalid("shell is over %d bytes", MaxArgvBytes)
		}
		c.argv, c.line = nil, in.Shell
	default:
		if err := checkArgv(in.Argv); err != nil {
			return Command{}, err
		}
		c.line = quoteAll(in.Argv)
	}
	if len(c.line) > MaxLine {
		return Command{}, invalid("the quoted command is over %d bytes", MaxLine)
	}
	if len(in.Stdin) > MaxStdin {
		return Command{}, invalid("stdin is over %d bytes", MaxStdin)
	}
	switch {
	case in.TimeoutSeconds < 0 || in.TimeoutSeconds > MaxTimeoutSeconds:
		return Command{}, invalid("timeoutSeconds is not within 0 and %d", MaxTimeoutSeconds)
	case in.TimeoutSeconds == 0:
		c.timeout = DefaultTimeout
	}
	return c, nil
}

func checkArgv(argv []string) error {
	if len(argv) > MaxArgv {
		return invalid("argv has over %d elements", MaxArgv)
	}
	if argv[0] == "" {
		return invalid("argv names no command")
	}
	total := 0
	for _, a := range argv {
		if err := checkText("argv", a); err != nil {
			return err
		}
		total += len(a)
	}
	if total > MaxArgvBytes {
		return invalid("argv is over %d bytes", MaxArgvBytes)
	}
	return nil
}

func checkText(what, s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return invalid("%s holds a NUL", what)
	}
	if !utf8.ValidString(s) {
		return invalid("%s is not UTF-8", what)
	}
	return nil
}

// Line is exactly what is sent to the remote login shell.
func (c Command) Line() string { return c.line }

// Argv is a copy of the elements; nil for a raw shell string.
func (c Command) Argv() []string { return slices.Clone(c.argv) }

// Shell is the raw shell string; empty for an argv.
func (c Command) Shell() string { return c.shell }

// Stdin is what the command is fed; not to be changed.
func (c Command) Stdin() []byte { return c.stdin }

// Timeout bounds the whole call. Run counts it from its own start; a caller who
// means dial and run together gives both one context with this bound.
func (c Command) Timeout() time.Duration { return time.Duration(c.timeout) * time.Second }

// Class names the kind of effect: the command's base name, or "shell".
func (c Command) Class() string {
	if len(c.argv) == 0 {
		return "shell"
	}
	return path.Base(c.argv[0])
}

// Canonical is the one encoding of the command that a digest is taken over. It
// holds stdin's SHA-256 and length, not its bytes.
func (c Command) Canonical() []byte {
	sum := sha256.Sum256(c.stdin)
	b, err := json.Marshal(struct {
		Argv    []string `json:"argv,omitempty"`
		Shell   string   `json:"shell,omitempty"`
		Stdin   string   `json:"stdinSha256"`
		Bytes   int      `json:"stdinBytes"`
		Timeout int      `json:"timeoutSeconds"`
	}{c.argv, c.shell, hex.EncodeToString(sum[:]), len(c.stdin), c.timeout}, json.Deterministic(true))
	if err != nil {
		return nil // cannot happen: ParseCommand let only valid UTF-8 in
	}
	return b
}
