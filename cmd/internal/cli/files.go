package cli

import (
	"io"
	"os"
)

// fileLimit bounds what a flag reads from a file (certificates, host keys, pins, identities), in bytes.
const fileLimit = 256 << 10

// readFile reads a small file that a flag names.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usage("%s", err)
	}
	defer f.Close()
	return readSmall(f, path)
}

// readInput is readFile, where - is stdin.
func (a *app) readInput(path string) ([]byte, error) {
	if path == "-" {
		return readSmall(a.in, "stdin")
	}
	return readFile(path)
}

func readSmall(r io.Reader, what string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, fileLimit+1))
	switch {
	case err != nil:
		return nil, usage("%s", err)
	case len(b) > fileLimit:
		return nil, usage("%s holds more than %d bytes", what, fileLimit)
	}
	return b, nil
}
