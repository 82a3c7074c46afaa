package client

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
)

// chunk is how many bytes one line carries: base64 and the rest of the line stay far below the limit.
const chunk = 4 << 20

// Send sends the bytes of r to the gateway and returns the reference by which one call, on this connection, names them.
func (c *Client) Send(ctx context.Context, r io.Reader) (ref string, err error) {
	buf := make([]byte, chunk)
	for {
		n, err := io.ReadFull(r, buf)
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return "", api.Fail("invalid_request", "the bytes to send can't be read: "+err.Error())
		}
		var b api.Blob
		if err := c.resultOf(ctx, api.MethodBlob, api.BlobRequest{Ref: ref, Data: buf[:n], EOF: end}, &b); err != nil {
			return "", err
		}
		if ref = b.Ref; end {
			return ref, nil
		}
	}
}

// Fetch writes the long body of an action of the caller's own run to w.
func (c *Client) Fetch(ctx context.Context, action string, w io.Writer) error {
	for at := int64(0); ; {
		var p api.FilePart
		if err := c.resultOf(ctx, api.MethodFile, api.FileRequest{Action: action, Offset: at, Length: chunk}, &p); err != nil {
			return err
		}
		if _, err := w.Write(p.Data); err != nil {
			return api.Fail("internal", "what came can't be written: "+err.Error())
		}
		if at += int64(len(p.Data)); p.EOF {
			return nil
		}
		if len(p.Data) == 0 {
			return api.Fail("internal", "the gateway sends no more of the file, and it has not ended")
		}
	}
}

// SendFile is Send of a file that the caller may read. The gateway gets its bytes, never its name.
func (c *Client) SendFile(ctx context.Context, path string) (ref string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", api.Fail("invalid_request", "bodyFile: "+err.Error())
	}
	defer f.Close()
	if i, err := f.Stat(); err != nil || !i.Mode().IsRegular() {
		return "", api.Fail("invalid_request", "bodyFile: "+path+" is no regular file")
	}
	return c.Send(ctx, f)
}

// SaveBody writes the body of an HTTP result, or a downloaded file, to a new file, private to the caller, and returns its length. A file that is
// there already is refused.
func (c *Client) SaveBody(ctx context.Context, x api.Action, path string) (n int64, err error) {
	var r struct { // what both results say of it
		Body         string  `json:"body"`
		BodyEncoding string  `json:"bodyEncoding"`
		BodyFile     *string `json:"bodyFile"`
	}
	if x.Tool != api.ToolHTTP && x.Tool != api.ToolDownload || json.Unmarshal(x.Result, &r) != nil {
		return 0, api.Fail("invalid_request", "the result of action "+x.ID+" has no body")
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, api.Fail("invalid_request", "outputFile: "+err.Error())
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = api.Fail("internal", "what came can't be written: "+cerr.Error())
		}
		if err != nil {
			os.Remove(path)
		}
	}()
	w := &counter{w: f}
	if r.BodyFile != nil {
		err = c.Fetch(ctx, *r.BodyFile, w)
		return w.n, err
	}
	body := []byte(r.Body)
	if r.BodyEncoding == "base64" {
		if body, err = base64.StdEncoding.DecodeString(r.Body); err != nil {
			return 0, api.Fail("internal", "the body is not what its encoding says")
		}
	}
	if _, err := w.Write(body); err != nil {
		return 0, api.Fail("internal", "what came can't be written: "+err.Error())
	}
	return w.n, nil
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
