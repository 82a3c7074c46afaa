package scrub

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// BenchmarkP12Scrub: 16 secrets in all their forms over bodies of several kinds, in
// pieces of 16 KiB. ratio is goal (300 MB/s) over measured, so at most 1 is wanted.
func BenchmarkP12Scrub(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 4))
	random := func(n int) []byte {
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		return p
	}
	s := &Set{}
	for range 16 {
		s.Add([]byte("ghp_" + base64.StdEncoding.EncodeToString(random(27))))
	}
	text := strings.Repeat("{\"id\":1296269,\"full_name\":\"octocat/Hello-World\",\"private\":false,\"url\":\"https://api.example.com/repos\"},\n", 11000)
	for name, in := range map[string][]byte{
		"json":   []byte(text)[:1<<20],
		"random": random(1 << 20),
		"hex":    []byte(hex.EncodeToString(random(1 << 19))),
		"base64": []byte(base64.StdEncoding.EncodeToString(random(1 << 20))[:1<<20]),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			start := time.Now()
			for b.Loop() {
				w := s.Writer(io.Discard)
				for p := in; len(p) > 0; p = p[min(len(p), 16<<10):] {
					if _, err := w.Write(p[:min(len(p), 16<<10)]); err != nil {
						b.Fatal(err)
					}
				}
				if hits, err := w.Close(true); hits != 0 || err != nil {
					b.Fatal(hits, err)
				}
			}
			measured := float64(len(in)) * float64(b.N) / time.Since(start).Seconds()
			b.ReportMetric(300e6/measured, "ratio")
			b.ReportMetric(measured/1e6, "scrubbed-MB/s")
		})
	}
}

// The set of one secret is made anew for each call: what that costs.
func BenchmarkNew(b *testing.B) {
	for _, key := range []string{"ghp_abcdefghijklmnopqrstuvwxyz0123456789", `p@ss w"rd/+<&>é`} {
		b.Run(fmt.Sprint(len(New([]byte(key)).forms)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				New([]byte(key)).compiled()
			}
		})
	}
}
