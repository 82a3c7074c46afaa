package gateway

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"sallyport/gateway/api"
)

// Bytes too long for one line: a call's body comes in chunks before the call (blob), a result's long body is fetched in
// chunks after it (file). A path never crosses the socket.

// blobs are what one connection has sent and not used yet. They lie in memory, in a room that all connections share, and
// go with the connection, or when they lie there too long.
type blobs struct {
	mu   sync.Mutex
	room *room
	pid  int
	by   map[string]*blob
}

type blob struct {
	data  []byte
	whole bool
	held  *hold
	old   *time.Timer
}

// Limits of what may lie there.
const (
	blobRoom   = 128 << 20       // bytes of all
	blobShare  = blobRoom / 2    // of one process
	blobLimit  = 64 << 20        // bytes of one
	blobsLimit = 16              // of one connection
	blobLife   = 2 * time.Minute // since its last chunk
)

func newBlobs(r *room, pid int) *blobs { return &blobs{room: r, pid: pid, by: map[string]*blob{}} }

// add appends a chunk to a blob; an empty ref begins one.
func (s *blobs) add(r api.BlobRequest) (api.Blob, *api.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.by[r.Ref]
	switch {
	case r.Ref == "" && len(s.by) >= blobsLimit:
		return api.Blob{}, api.Fail("busy", "this connection has 16 blobs that no call has used")
	case r.Ref == "":
		r.Ref = newID("blob_")
		b = &blob{held: &hold{room: s.room, pid: s.pid}, old: time.AfterFunc(blobLife, func() { s.expire(r.Ref) })}
		b.held.keep()
		s.by[r.Ref] = b
	case b == nil || b.whole:
		return api.Blob{}, api.Fail("invalid_request", "ref: no blob of this connection that takes more")
	}
	switch {
	case len(b.data)+len(r.Data) > blobLimit:
		s.drop(r.Ref)
		return api.Blob{}, api.Fail("frame_too_large", "a blob is at most 64 MiB")
	case !b.held.take(len(r.Data)):
		s.drop(r.Ref)
		return api.Blob{}, api.Fail("busy", "too many long requests are under way")
	}
	b.old.Reset(blobLife)
	b.data, b.whole = append(b.data, r.Data...), r.EOF
	return api.Blob{Ref: r.Ref, Length: int64(len(b.data))}, nil
}

// drop lets go of a blob. mu must be held.
func (s *blobs) drop(ref string) {
	s.by[ref].old.Stop()
	s.by[ref].held.drop()
	delete(s.by, ref)
}

// expire lets go of a blob that nobody used.
func (s *blobs) expire(ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[ref] != nil {
		s.drop(ref)
	}
}

// take hands a whole blob to its one call, which gives the room back when it is over.
func (s *blobs) take(ref string) (*blob, *api.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.by[ref]
	if b == nil || !b.whole {
		return nil, api.Fail("invalid_request", "bodyRef: no whole blob of this connection; each serves one call")
	}
	b.old.Stop()
	delete(s.by, ref)
	return b, nil
}

// close lets go of all.
func (s *blobs) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ref := range slices.Collect(maps.Keys(s.by)) {
		s.drop(ref)
	}
}

// blob takes a chunk of a body.
func (a *agentConn) blob(ctx context.Context, params []byte) api.Response {
	var r api.BlobRequest
	who, fault := a.control(ctx, api.MethodBlob, params, &r)
	if fault != nil {
		return api.Response{Error: fault}
	}
	b, fault := a.blobs.add(r)
	if fault != nil {
		return api.Response{Error: a.denied(ctx, who, api.MethodBlob, "", fault)}
	}
	return api.Response{Result: encode(b)}
}

// fileChunks is how many bytes one answer of file holds at most.
const fileChunks = 4 << 20

// file shows a part of the long body of an action of the caller's own run.
func (a *agentConn) file(ctx context.Context, params []byte) api.Response {
	var r api.FileRequest
	who, fault := a.control(ctx, api.MethodFile, params, &r)
	if fault != nil {
		return api.Response{Error: fault}
	}
	if _, fault = a.own(ctx, who, api.MethodFile, r.Action); fault != nil {
		return api.Response{Error: fault}
	}
	part, fault := a.g.filePart(ctx, r)
	if fault != nil {
		return api.Response{Error: a.denied(ctx, who, api.MethodFile, "", fault)}
	}
	return api.Response{Result: encode(part)}
}

// filePart reads from an action's file.
func (g *Gateway) filePart(ctx context.Context, r api.FileRequest) (api.FilePart, *api.Error) {
	if r.Length == 0 {
		r.Length = fileChunks
	}
	if r.Offset < 0 || r.Length < 0 || r.Length > fileChunks {
		return api.FilePart{}, api.Fail("invalid_request", "offset: 0 or more; length: at most 4 MiB")
	}
	k, err := g.keptOf(ctx, r.Action)
	switch {
	case err != nil:
		g.complain("read action", err)
		return api.FilePart{}, api.Fail("result_lost", "")
	case k.File == nil && len(k.Doc.Result) == 0:
		return api.FilePart{}, api.Fail("result_lost", "")
	case k.File == nil:
		return api.FilePart{}, api.Fail("invalid_request", "this action's result is no file")
	}
	data, eof, err := readFile(g.cfg.Home.Files(), r.Action, *k.File, r.Offset, r.Length)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			g.complain("read file", err)
		}
		return api.FilePart{}, api.Fail("result_lost", "")
	}
	return api.FilePart{Data: data, EOF: eof, Size: k.File.Size}, nil
}
