package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
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

// Do posts one command to path (of [api.Routes]). p is the operator's proof (nil:
// none), args the path's arguments (nil: {}), v the value whose length and digest
// args already hold (nil: none). The answer goes to out (nil: not wanted).
func (c *Client) Do(ctx context.Context, path string, p *api.Proof, args any, v *Value, out any) error {
	if c.operator == nil {
		return api.Fail("unknown_method", "this is the agents' door")
	}
	body, err := envelope(p, args, v)
	if err != nil {
		return err
	}
	defer clear(body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+api.OperatorPrefix+path, bytes.NewReader(body))
	if err != nil {
		return api.Fail("invalid_request", err.Error())
	}
	req.GetBody = nil // a command is sent once
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := c.operator.Do(req)
	if err != nil {
		return noAnswer(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit+1))
	if err != nil || len(answer) > answerLimit {
		return noAnswer(err)
	}
	return decode(path, resp.StatusCode, answer, out)
}

// envelope is the body: one JSON line, then the value.
func envelope(p *api.Proof, args any, v *Value) ([]byte, error) {
	e := api.Envelope{Proof: p}
	if args != nil {
		b, err := json.Marshal(args)
		if err != nil {
			return nil, api.Fail("invalid_request", "the arguments are no JSON: "+err.Error())
		}
		e.Args = b
	}
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
			return conn, nil
		},
	}
}
