package peer

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

const callBytes = 512 // of a request, and of its answer

// BenchmarkP17Peer prints what the check of a peer costs per call (the sender of
// each read, and the process instance) against a bare echo over the same socket,
// with 16 clients in a process of their own, interleaved in one run. A real call
// does far more than an echo: the difference is what it pays.
func BenchmarkP17Peer(b *testing.B) {
	const clients, calls = 16, 500 // calls of each client in a round
	l, err := Listen(filepath.Join(b.TempDir(), "s"))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	x := exec.Command(exe, "role:load", l.Addr().String(), strconv.Itoa(clients))
	if err := x.Start(); err != nil {
		b.Fatal(err)
	}
	defer x.Wait()
	var raw []*net.UnixConn
	var peers []*Process
	for range clients {
		c, err := l.AcceptUnix()
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		p, err := FromConn(c)
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		raw, peers = append(raw, c), append(peers, p)
	}
	p := peers[0] // one process, shared by its connections
	var took [3][]float64
	for b.Loop() {
		for kind := range took {
			t := round(b, raw, calls, func(c *net.UnixConn) error {
				var r io.Reader = c
				if kind > 0 {
					r = Conn(c, p)
				}
				return answer(c, r, calls, func() error {
					if kind < 2 {
						return nil
					}
					return p.Same()
				})
			})
			took[kind] = append(took[kind], float64(t)/(clients*calls))
		}
	}
	for kind, name := range []string{"bare", "sender", "both"} {
		b.ReportMetric(median(took[kind]), name+"-ns/call")
	}
	b.ReportMetric(median(ratios(took[1], took[0])), "sender-ratio")
	b.ReportMetric(median(ratios(took[2], took[0])), "both-ratio")
	b.ReportMetric(0, "ns/op")
}

// round has every client make its calls and waits for the last answer.
func round(b *testing.B, cs []*net.UnixConn, calls int, f func(*net.UnixConn) error) time.Duration {
	start := time.Now()
	var wg sync.WaitGroup
	for _, c := range cs {
		wg.Go(func() {
			if err := f(c); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// answer says how many calls it wants, and answers them.
func answer(c *net.UnixConn, r io.Reader, calls int, check func() error) error {
	var buf [callBytes]byte
	if _, err := c.Write([]byte{byte(calls >> 8), byte(calls)}); err != nil {
		return err
	}
	for range calls {
		if _, err := io.ReadFull(r, buf[:]); err != nil {
			return err
		}
		if err := check(); err != nil {
			return err
		}
		if _, err := c.Write(buf[:]); err != nil {
			return err
		}
	}
	return nil
}

// load PATH N: N clients, which call as often as they are told.
func load(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for range n {
		c, err := net.Dial("unix", args[0])
		if err != nil {
			return err
		}
		wg.Go(func() {
			var buf [callBytes]byte
			for {
				if _, err := io.ReadFull(c, buf[:2]); err != nil {
					return
				}
				for range int(buf[0])<<8 | int(buf[1]) {
					c.Write(buf[:])
					if _, err := io.ReadFull(c, buf[:]); err != nil {
						return
					}
				}
				clear(buf[:])
			}
		})
	}
	wg.Wait()
	return nil
}

// ratios divides round by round, so that what slows the machine slows both.
func ratios(v, base []float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i] / base[i]
	}
	return out
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func BenchmarkSame(b *testing.B) {
	p, err := FromConn(loop(b))
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Same(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFromConn(b *testing.B) {
	c := loop(b)
	b.ReportAllocs()
	for b.Loop() {
		p, err := FromConn(c)
		if err != nil {
			b.Fatal(err)
		}
		p.Close()
	}
}

// loop is a connection of this process to itself.
func loop(b *testing.B) *net.UnixConn {
	l, err := Listen(filepath.Join(b.TempDir(), "s"))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	s, err := l.AcceptUnix()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close(); s.Close() })
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for st, _ := os.Stat(exe); time.Since(st.ModTime()) < 2*settled; { // remembered digests only
		time.Sleep(settled / 4)
	}
	return s
}
