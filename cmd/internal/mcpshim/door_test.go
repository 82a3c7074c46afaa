package mcpshim

import (
	"context"
	"sync"

	"sallyport/gateway/api"
)

// fakeDoor answers as told and keeps what it was asked. Unset functions answer gateway_unreachable.
type fakeDoor struct {
	act     func(ctx context.Context, r api.ActionRequest) (api.Action, error)
	status  func(ctx context.Context, r api.StatusRequest) (api.Action, error)
	cancel  func(ctx context.Context, r api.CancelRequest) (api.Action, error)
	send    func(path string) (string, error)
	save    func(a api.Action, path string) (int64, error)
	targets func(ctx context.Context) ([]api.Target, error)
	session func(ctx context.Context) (api.Session, error)

	mu     sync.Mutex
	used   int
	closed int
	left   int
	acts   []api.ActionRequest
	asked  []api.StatusRequest
}

func (d *fakeDoor) Act(ctx context.Context, r api.ActionRequest) (api.Action, error) {
	d.mu.Lock()
	d.used++
	d.acts = append(d.acts, r)
	d.mu.Unlock()
	if d.act == nil {
		return api.Action{}, api.Fail("gateway_unreachable", "")
	}
	return d.act(ctx, r)
}

func (d *fakeDoor) Status(ctx context.Context, r api.StatusRequest) (api.Action, error) {
	d.mu.Lock()
	d.used++
	d.asked = append(d.asked, r)
	d.mu.Unlock()
	if d.status == nil {
		return api.Action{}, api.Fail("gateway_unreachable", "")
	}
	return d.status(ctx, r)
}

func (d *fakeDoor) Cancel(ctx context.Context, r api.CancelRequest) (api.Action, error) {
	d.count()
	if d.cancel == nil {
		return api.Action{}, api.Fail("gateway_unreachable", "")
	}
	return d.cancel(ctx, r)
}

func (d *fakeDoor) SendFile(ctx context.Context, path string) (string, error) {
	d.count()
	if d.send == nil {
		return "", api.Fail("gateway_unreachable", "")
	}
	return d.send(path)
}

func (d *fakeDoor) SaveBody(ctx context.Context, a api.Action, path string) (int64, error) {
	d.count()
	if d.save == nil {
		return 0, api.Fail("gateway_unreachable", "")
	}
	return d.save(a, path)
}

func (d *fakeDoor) Targets(ctx context.Context) ([]api.Target, error) {
	d.count()
	if d.targets == nil {
		return nil, api.Fail("gateway_unreachable", "")
	}
	return d.targets(ctx)
}

func (d *fakeDoor) Session(ctx context.Context) (api.Session, error) {
	d.count()
	if d.session == nil {
		return api.Session{}, api.Fail("gateway_unreachable", "")
	}
	return d.session(ctx)
}

func (d *fakeDoor) Leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left++
}

func (d *fakeDoor) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed++
	return nil
}

func (d *fakeDoor) count() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used++
}

func (d *fakeDoor) uses() (used, closed int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used, d.closed
}
