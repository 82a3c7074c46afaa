package vault_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"sallyport/vault"
)

const passphrase = "correct horse battery staple"

var errDisk = errors.New("disk is gone")

// memory is a Store that fails when told to.
type memory struct {
	mu       sync.Mutex
	rows     map[string]vault.Row
	counter  uint64
	batches  [][]byte
	boxes    map[string][]byte // of Seal with the use "use", by additional data
	spoil    func([]vault.Row) // what a disk does to a new database
	refuse   bool              // Commit fails and writes nothing
	lie      bool              // Commit writes and fails all the same
	entered  chan struct{}     // if set: one token for each Load and Commit that has begun,
	released chan struct{}     // and each waits for a token here before it returns
}

func newMemory() *memory { return &memory{rows: map[string]vault.Row{}} }

func (m *memory) wait() {
	m.mu.Lock()
	entered, released := m.entered, m.released
	m.mu.Unlock()
	if entered != nil {
		entered <- struct{}{}
		<-released
	}
}

// hold makes every later call wait; the func returned ends that.
func (m *memory) hold() (entered, released chan struct{}, stop func()) {
	entered, released = make(chan struct{}), make(chan struct{})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entered, m.released = entered, released
	return entered, released, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.entered, m.released = nil, nil
	}
}

func (m *memory) Load(context.Context) ([]vault.Row, uint64, error) {
	m.wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse {
		return nil, 0, errDisk
	}
	var out []vault.Row
	for _, r := range m.rows {
		r.Data = slices.Clone(r.Data)
		out = append(out, r)
	}
	return out, m.counter, nil
}

func (m *memory) Commit(_ context.Context, base uint64, put []vault.Row, drop []string, also []byte) error {
	m.wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.refuse:
		return errDisk
	case base != m.counter:
		return vault.ErrConflict
	}
	m.counter++
	for _, id := range drop {
		delete(m.rows, id)
	}
	for _, r := range put {
		r.Data = slices.Clone(r.Data)
		m.rows[r.ID] = r
	}
	if also != nil {
		m.batches = append(m.batches, also)
	}
	if m.lie {
		return errDisk
	}
	return nil
}

// dump is what Copy writes.
type dump struct {
	Rows    []vault.Row
	Counter uint64
}

func (m *memory) Copy(ctx context.Context) (io.ReadCloser, error) {
	rows, counter, err := m.Load(ctx)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(dump{rows, counter})
	return io.NopCloser(bytes.NewReader(b)), err
}

func (m *memory) Swap(ctx context.Context, s vault.Swap) error {
	rows, base, err := m.Load(ctx)
	if err != nil {
		return err
	}
	if s.From != nil {
		var d dump
		b, err := io.ReadAll(io.LimitReader(s.From, s.Limit+1))
		if err != nil {
			return fmt.Errorf("%w: %w", vault.ErrInvalid, err)
		}
		if int64(len(b)) > s.Limit {
			return fmt.Errorf("too long: %w", vault.ErrInvalid)
		}
		if err := json.Unmarshal(b, &d); err != nil {
			return fmt.Errorf("%w: %w", vault.ErrInvalid, err)
		}
		rows, base = d.Rows, d.Counter
	}
	next, counter, err := s.Edit(rows, base)
	if err != nil {
		return err
	}
	boxes := map[string][]byte{}
	for ad, box := range m.boxes {
		if boxes[ad], err = s.Reseal("use", []byte(ad), box); err != nil {
			boxes[ad] = box
		}
	}
	if m.spoil != nil {
		m.spoil(next)
	}
	if err := s.Verify(next, counter); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows, m.counter, m.boxes = map[string]vault.Row{}, counter, boxes
	for _, r := range next {
		m.rows[r.ID] = r
	}
	if s.Also != nil {
		also, err := s.Also()
		if err != nil {
			return err
		}
		if also != nil {
			m.batches = append(m.batches, also)
		}
	}
	if m.lie {
		return errDisk
	}
	return nil
}

func (m *memory) fail(refuse, lie bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse, m.lie = refuse, lie
}

func key() vault.Key { return vault.Passphrase([]byte(passphrase)) }

func open(t testing.TB, s vault.Store) *vault.Vault {
	t.Helper()
	v, err := vault.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// ready makes a vault in m with one internal secret.
func ready(t testing.TB, m *memory) *vault.Vault {
	t.Helper()
	v := open(t, m)
	d, err := v.Prepare(key(), vault.CreateOptions{WorkFactor: 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(t.Context(), map[string][]byte{"log identity": []byte("seed")}, nil); err != nil {
		t.Fatal(err)
	}
	return v
}

func add(t testing.TB, v *vault.Vault, name, value string) vault.Meta {
	t.Helper()
	m, err := v.AddCredential(t.Context(), vault.Meta{Name: name, Kind: "bearer"}, []byte(value), nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func lent(t testing.TB, v *vault.Vault, r vault.Ref) (string, error) {
	t.Helper()
	got := ""
	err := v.With(t.Context(), r, func(s vault.Secret) error {
		got = string(s.Bytes())
		return nil
	})
	return got, err
}

// clone is a copy that nothing done to m changes.
func (m *memory) clone() *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &memory{rows: map[string]vault.Row{}, counter: m.counter, boxes: map[string][]byte{}}
	for id, r := range m.rows {
		r.Data = slices.Clone(r.Data)
		c.rows[id] = r
	}
	for ad, box := range m.boxes {
		c.boxes[ad] = slices.Clone(box)
	}
	return c
}
