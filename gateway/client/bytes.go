package client

import (
	"context"
	"errors"
	"io"

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
