package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
)

// lines makes one call a line. A read of stdin can't be called back, so it is done apart: an
// interrupt ends the command also while it waits for a line.
func (c *caller) lines(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read := make(chan lineRead)
	go readLines(ctx, bufio.NewReaderSize(in, 64<<10), read)
	var first error
	for {
		var l lineRead
		select {
		case <-ctx.Done():
			return ctx.Err()
		case l = <-read:
		}
		err := l.err
		if err == io.EOF {
			return first
		}
		if err == nil {
			err = c.line(ctx, l.line)
		}
		var refused *api.Error
		if errors.As(err, &refused) { // the line itself is no call
			if err := c.document(refused); err != nil {
				return err
			}
			err = status(api.Lookup(refused.Code).Exit)
		}
		var exit exitError
		switch {
		case err == nil:
		case !errors.As(err, &exit):
			return err
		case first == nil:
			first = err
		}
	}
}

// lineRead is one line, or why there is none.
type lineRead struct {
	line []byte
	err  error
}

// readLines hands over line by line, the next one only when it is asked for. It ends with the input, with a read that
// fails, when ctx is done, or, where a read never returns, with the process.
func readLines(ctx context.Context, r *bufio.Reader, to chan<- lineRead) {
	for {
		line, err := readLine(r)
		select {
		case to <- lineRead{line, err}:
		case <-ctx.Done():
			return
		}
		var long *api.Error
		if err != nil && !errors.As(err, &long) {
			return
		}
	}
}

func (c *caller) line(ctx context.Context, line []byte) error {
	r, err := parseCall(line)
	if err != nil {
		return api.Fail("invalid_request", "the line is no call: "+err.Error())
	}
	return c.one(ctx, r)
}

// parseCall reads {"tool","args","idempotencyKey"?,"reason"?}, each at most once and nothing
// else. Args pass as they are: what is wrong with them the gateway judges, and records.
func parseCall(line []byte) (r api.ActionRequest, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return r, errors.New("it is no JSON object")
	}
	seen := map[string]bool{}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return r, inWords(err)
		}
		name := t.String()
		if seen[name] {
			return r, fmt.Errorf("%q is there twice", name)
		}
		seen[name] = true
		v, err := d.ReadValue()
		if err != nil {
			return r, inWords(err)
		}
		switch name {
		case "tool":
			err = text(v, name, &r.Tool)
		case "args":
			r.Args = v.Clone()
		case "idempotencyKey":
			err = text(v, name, &r.IdempotencyKey)
		case "reason":
			err = text(v, name, &r.Reason)
		default:
			err = fmt.Errorf("unknown field %q", name)
		}
		if err != nil {
			return r, err
		}
	}
	if _, err := d.ReadToken(); err != nil { // the closing brace
		return r, inWords(err)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return r, errors.New("something follows the object")
	}
	if r.Args == nil {
		return r, errors.New("args is missing")
	}
	return r, nil
}

func text(v jsontext.Value, name string, to *string) error {
	if json.Unmarshal(v, to) != nil {
		return fmt.Errorf("%s is no string", name)
	}
	return nil
}

// readLine reads one line without its newline; a line past the limit is read over and refused.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for long := false; ; {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(part) > api.FrameLimit; !long {
			line = append(line, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil && (err != io.EOF || len(line) == 0 && !long):
			return nil, err
		case long:
			return nil, api.Fail("frame_too_large", "")
		default:
			return line, nil
		}
	}
}
