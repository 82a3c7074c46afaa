package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"sallyport/gateway/api"
	"sallyport/gateway/scrub"
	"sallyport/sshexec"
)

// upload writes the plan's own bytes to the host. Whoever asks for the action's status reads how far it has come.
func (g *Gateway) upload(ctx context.Context, c *call, p *plan, conn *sshexec.Conn, out *outcome) error {
	told := &stream{}
	g.acts.show(c.id, &streams{out: told, err: &stream{}})
	m := p.host.move
	tenth := int64(0)
	r, err := conn.Put(ctx, m, p.way.match, bytes.NewReader(p.host.body), func(done int64) {
		if out.sent = done; done*10/max(m.Size(), 1) > tenth {
			tenth = done * 10 / m.Size()
			fmt.Fprintf(told, "%d of %d bytes\n", done, m.Size())
		}
	})
	out.hostSettled(r)
	if r.Outcome == sshexec.Confirmed {
		out.result = encode(api.TransferResult{Path: m.Path(), Size: m.Size(), Digest: "sha256:" + m.Digest()})
	}
	return err
}

// download reads a file from the host, searched for the secrets that opened the way. A long one goes to a file here.
func (g *Gateway) download(ctx context.Context, c *call, p *plan, conn *sshexec.Conn, set *scrub.Set, out *outcome) error {
	body := &stream{spill: func() (*fileWriter, error) { return newFile(g.cfg.Home.Files(), c.id) }}
	g.acts.show(c.id, &streams{out: body, err: &stream{}})
	sum := sha256.New()
	w := set.Writer(io.MultiWriter(body, sum))
	r, err := conn.Get(ctx, p.host.move, p.way.match, w, func(done int64) { out.received = done })
	hits, werr := w.Close(r.Outcome == sshexec.Confirmed)
	out.hostSettled(r)
	if out.reflected = hits; hits > 0 {
		out.flags = append(out.flags, "reflected")
	}
	file, ferr := body.kept()
	if r.Outcome == sshexec.Confirmed {
		res := api.TransferResult{Path: p.host.move.Path(), Size: body.count(), Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil))}
		switch {
		case file != nil:
			out.file, res.BodyFile = file, &c.id
		case body.over():
			out.flags = append(out.flags, "output_truncated")
			fallthrough
		default:
			res.Body, res.BodyEncoding = bodyText(body.bytes())
		}
		out.result = encode(res)
	}
	return errors.Join(err, werr, ferr)
}
