package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
	"sallyport/gateway/home"
)

// answerLimit bounds an answer of the operators' door, in bytes.
const answerLimit = 64 << 20

// Value is the bytes that follow an envelope's line, with the salt that lets args
// name them without revealing them. A nil *Value is no value.
type Value struct {
	bytes []byte
	salt  []byte // 16 fresh bytes
}

// Salt makes a Value of b, which must stay unchanged until [Client.Do] has returned.
func Salt(b []byte) *Value {
	salt := make([]byte, 16)
	rand.Read(salt)
	return &Value{bytes: b, salt: salt}
}

// Len is what args hold as valueLength.
func (v *Value) Len() int { return len(v.bytes) }

// Digest is what args hold as valueDigest: SHA-256(salt | value).
func (v *Value) Digest() []byte {
	h := sha256.New()
	h.Write(v.salt)
	h.Write(v.bytes)
	return h.Sum(nil)
}

// String and GoString keep the bytes out of any print.
func (v *Value) String() string   { return "[value]" }
func (v *Value) GoString() string { return "[value]" }

// Command is one request of the operators' door.
type Command struct {
	Path  string // of [api.Routes]
	Proof *api.Proof
	Keys  []api.Proof // further keys
	Args  any         // nil: {}
	Value *Value      // whose length and digest Args hold; nil: none
	File  io.Reader   // follows the line as it is; its length and SHA-256 are in Args; nil: none
}

// Do posts one command to path (of [api.Routes]). p is the operator's proof (nil:
// none), args the path's arguments (nil: {}), v the value whose length and digest
// args already hold (nil: none). The answer goes to out (nil: not wanted).
func (c *Client) Do(ctx context.Context, path string, p *api.Proof, args any, v *Value, out any) error {
	return c.Run(ctx, Command{Path: path, Proof: p, Args: args, Value: v}, out)
}

// Run posts one command. The answer goes to out (nil: not wanted).
func (c *Client) Run(ctx context.Context, cmd Command, out any) error {
	resp, done, err := c.post(ctx, cmd)
	if err != nil {
		return err
	}
	defer done()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit+1))
	if err != nil || len(answer) > answerLimit {
		return noAnswer(err)
	}
	return decode(cmd.Path, resp.StatusCode, answer, out)
}

// Download posts a command whose answer is a file, and writes that to what into
// returns for its length. The file is whole only if the error is nil.
func (c *Client) Download(ctx context.Context, cmd Command, into func(length int64) (io.Writer, error)) error {
	resp, done, err := c.post(ctx, cmd)
	if err != nil {
		return err
	}
	defer done()
	if resp.StatusCode != http.StatusOK || resp.ContentLength < 0 {
		answer, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
		if err != nil {
			return noAnswer(err)
		}
		return decode(cmd.Path, resp.StatusCode, answer, &struct{}{})
	}
	w, err := into(resp.ContentLength)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("receive file: %w", err)
	}
	return nil
}

// post sends a command; done ends with its answer.
func (c *Client) post(ctx context.Context, cmd Command) (resp *http.Response, done func(), err error) {
	if c.operator == nil {
		return nil, nil, api.Fail("unknown_method", "this is the agents' door")
	}
	line, err := envelope(cmd)
	if err != nil {
		return nil, nil, err
	}
	body := io.Reader(bytes.NewReader(line))
	if cmd.File != nil {
		body = io.MultiReader(body, cmd.File)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+api.OperatorPrefix+cmd.Path, body)
	if err != nil {
		clear(line)
		return nil, nil, api.Fail("invalid_request", err.Error())
	}
	req.GetBody = nil // a command is sent once
	req.Header.Set("Content-Type", "application/octet-stream")
	if resp, err = c.operator.Do(req); err != nil {
		clear(line)
		return nil, nil, noAnswer(err)
	}
	return resp, func() { resp.Body.Close(); clear(line) }, nil
}

// envelope is the body: one JSON line, then the value.
func envelope(cmd Command) ([]byte, error) {
	e := api.Envelope{Proof: cmd.Proof, Keys: cmd.Keys}
	if cmd.Args != nil {
		b, err := json.Marshal(cmd.Args)
		if err != nil {
			return nil, api.Fail("invalid_request", "the arguments are no JSON: "+err.Error())
		}
		e.Args = b
	}
	v := cmd.Value
	if v != nil {
		e.Salt = v.salt
	}
	line, err := json.Marshal(e)
	if err != nil {
		return nil, api.Fail("invalid_request", "the request is no JSON") // err could quote the proof
	}
	line = append(line, '\n')
	if v == nil {
		return line, nil
	}
	body := append(make([]byte, 0, len(line)+len(v.bytes)), line...)
	clear(line)
	return append(body, v.bytes...), nil
}

// decode reads the document of a 200, or the refusal.
func decode(path string, status int, answer []byte, out any) error {
	if status != http.StatusOK {
		var e api.Error
		if json.Unmarshal(answer, &e, json.RejectUnknownMembers(true)) != nil || e.Code == "" {
			return api.Fail("internal", "the gateway refused "+path+" with status "+http.StatusText(status)+" and no reason")
		}
		return &e
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out, json.RejectUnknownMembers(true)); err != nil {
		return api.Fail("internal", "the gateway's answer to "+path+" is not understood: "+err.Error())
	}
	return nil
}

// notDialled marks an error from before anything was sent.
type notDialled struct{ err *api.Error }

func (e notDialled) Error() string { return e.err.Error() }

// noAnswer tells a gateway that is not there from one that fell silent.
func noAnswer(err error) error {
	var n notDialled
	if errors.As(err, &n) {
		return n.err
	}
	var s halted
	if errors.As(err, &s) {
		return s.refusal()
	}
	return api.Fail("gateway_unreachable", "the gateway did not answer; it may have done it: look before you repeat it")
}

// operatorTransport opens one connection a command: a stale one could not tell
// whether a command had arrived.
func operatorTransport(h home.Home) http.RoundTripper {
	return &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := dialOperator(ctx, h)
			if err != nil {
				return nil, notDialled{unreachable(err)}
			}
			return look(conn), nil
		},
	}
}
