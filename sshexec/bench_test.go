package sshexec_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"sallyport/gateway/scrub"
	"sallyport/sshexec"

	"github.com/go-json-experiment/json"
)

// openSSH is OpenSSH's client for the same sshd, account and key. It reads no configuration of this user's.
type openSSH struct {
	b    *testing.B
	opts []string
	to   string // user@host
}

func newOpenSSH(b *testing.B, s *sshd, more ...string) *openSSH {
	b.Helper()
	for _, bin := range []string{"ssh", "scp"} {
		if _, err := exec.LookPath(bin); err != nil {
			missing(b, bin, "not installed")
		}
	}
	_, port, _ := net.SplitHostPort(s.target.Address)
	key, known := filepath.Join(s.dir, "bench_key"), filepath.Join(s.dir, "bench_known")
	if err := os.WriteFile(key, s.auth.Secret, 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(known, fmt.Appendf(nil, "[127.0.0.1]:%s %s\n", port, s.public["ed25519"]), 0o600); err != nil {
		b.Fatal(err)
	}
	opts := []string{"-F", "none", "-q", "-i", key}
	for _, o := range append([]string{"Port=" + port, "IdentitiesOnly=yes", "BatchMode=yes", "StrictHostKeyChecking=yes", "UserKnownHostsFile=" + known,
		"GlobalKnownHostsFile=/dev/null", "HostKeyAlgorithms=ssh-ed25519"}, more...) {
		opts = append(opts, "-o", o)
	}
	return &openSSH{b, opts, s.target.User + "@127.0.0.1"}
}

func (o *openSSH) do(bin string, args ...string) {
	o.b.Helper()
	if out, err := exec.Command(bin, append(slices.Clone(o.opts), args...)...).CombinedOutput(); err != nil {
		o.b.Fatalf("%s: %v\n%s", bin, err, out)
	}
}

// against runs ours and theirs in turn, the first of a round changing, and reports how the medians compare.
func against(b *testing.B, ours, theirs func()) {
	b.Helper()
	took := [2][]time.Duration{}
	for n := 0; b.Loop(); n++ {
		for i := range 2 {
			who := (n + i) % 2
			t := time.Now()
			[]func(){ours, theirs}[who]()
			took[who] = append(took[who], time.Since(t))
		}
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2].Microseconds()) / 1000
	}
	x, y := median(took[0]), median(took[1])
	b.ReportMetric(x/y, "ratio")
	b.ReportMetric(x, "ours-ms")
	b.ReportMetric(y, "openssh-ms")
	b.ReportMetric(0, "ns/op")
	b.Logf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

// runs one command that does nothing, and fails on anything but its success.
func (s *sshd) runsTrue(b *testing.B) {
	c := s.dial(b)
	defer s.pool.Put(c)
	m, cmd := s.match(b, "true")
	if r := c.Run(b.Context(), cmd, m, io.Discard, io.Discard); r.Outcome != sshexec.Confirmed {
		b.Fatalf("%+v", r)
	}
}

// BenchmarkP9Pooled: a command on a pooled connection, against ssh through its ControlMaster.
func BenchmarkP9Pooled(b *testing.B) {
	s := startSSHD(b, nil, "")
	o := newOpenSSH(b, s, "ControlPath="+filepath.Join(s.dir, "ctl"))
	master := exec.Command("ssh", append(slices.Clone(o.opts), "-M", "-N", o.to)...)
	if err := master.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = master.Process.Kill(); _ = master.Wait() }()
	waitFor(b, "the master", func() bool {
		return exec.Command("ssh", append(slices.Clone(o.opts), "-O", "check", o.to)...).Run() == nil
	})
	s.runsTrue(b)
	against(b, func() { s.runsTrue(b) }, func() { o.do("ssh", o.to, "true") })
}

// BenchmarkP10Fresh: a command on a connection of its own, against ssh.
func BenchmarkP10Fresh(b *testing.B) {
	s := startSSHD(b, nil, "")
	o := newOpenSSH(b, s)
	against(b, func() {
		s.pool = sshexec.NewPool(sshexec.PoolOptions{})
		defer s.pool.Close()
		s.runsTrue(b)
	}, func() { o.do("ssh", o.to, "true") })
}

// BenchmarkP11Files: 64 MiB each way over a connection of its own, hashed, and searched for a secret on the way here, against scp.
func BenchmarkP11Files(b *testing.B) {
	s := startSSHD(b, nil, "")
	o := newOpenSSH(b, s)
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	spec, err := json.Marshal(sshexec.RuleSpec{AllowUpload: []string{dir}, AllowDownload: []string{dir}})
	if err != nil {
		b.Fatal(err)
	}
	rules, err := sshexec.ParseRules(spec)
	if err != nil {
		b.Fatal(err)
	}
	const size = 64 << 20
	body := make([]byte, size)
	_, _ = rand.Read(body)
	there, here := filepath.Join(dir, "there"), filepath.Join(dir, "here")
	if err := os.WriteFile(there, body, 0o600); err != nil {
		b.Fatal(err)
	}
	move := func(in sshexec.TransferInput, do func(*sshexec.Conn, sshexec.Transfer, sshexec.Match) (sshexec.Result, error)) {
		x, err := sshexec.ParseTransfer(in)
		if err != nil {
			b.Fatal(err)
		}
		m, err := rules.MatchTransfer(x)
		if err != nil {
			b.Fatal(err)
		}
		s.pool = sshexec.NewPool(sshexec.PoolOptions{})
		defer s.pool.Close()
		c := s.dial(b)
		defer s.pool.Put(c)
		if r, err := do(c, x, m); err != nil || r.Outcome != sshexec.Confirmed {
			b.Fatalf("%+v %v", r, err)
		}
	}
	b.Run("down", func(b *testing.B) {
		against(b, func() {
			f, err := os.Create(here)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			sum := sha256.New()
			w := scrub.New([]byte("a-secret-that-opens-the-way")).Writer(io.MultiWriter(f, sum))
			move(sshexec.TransferInput{Way: sshexec.Download, Path: there}, func(c *sshexec.Conn, x sshexec.Transfer, m sshexec.Match) (sshexec.Result, error) {
				return c.Get(b.Context(), x, m, w, nil)
			})
			if hits, err := w.Close(true); err != nil || hits != 0 {
				b.Fatal(hits, err)
			}
		}, func() { o.do("scp", o.to+":"+there, here) })
	})
	b.Run("up", func(b *testing.B) {
		from := filepath.Join(dir, "from")
		if err := os.WriteFile(from, body, 0o600); err != nil {
			b.Fatal(err)
		}
		against(b, func() {
			f, err := os.Open(from)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			sum := sha256.New()
			if _, err := io.Copy(sum, f); err != nil {
				b.Fatal(err)
			}
			in := sshexec.TransferInput{Way: sshexec.Upload, Path: there, Mode: 0o600, Size: size, Digest: hex.EncodeToString(sum.Sum(nil))}
			move(in, func(c *sshexec.Conn, x sshexec.Transfer, m sshexec.Match) (sshexec.Result, error) {
				return c.Put(b.Context(), x, m, f, nil)
			})
		}, func() { o.do("scp", from, o.to+":"+there) })
	})
}
