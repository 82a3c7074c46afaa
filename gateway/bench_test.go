package gateway

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sallyport/gateway/api"
)

// P1: a brokered call over agent.sock, with its intent and its result sealed, signed and synced, against one goroutine
// that syncs, calls directly over a kept connection, and syncs, on the same disk in the same run.
func BenchmarkP1Brokered(b *testing.B) {
	r, a, url := benchRig(b)
	_ = r
	f, err := os.OpenFile(filepath.Join(b.TempDir(), "floor"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	record := make([]byte, 1024)
	sync := func() {
		if _, err := f.Write(record); err != nil {
			b.Fatal(err)
		}
		if err := fdatasync(f); err != nil {
			b.Fatal(err)
		}
	}
	direct := func() {
		res, err := http.Get(url)
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	var brokered, floor []time.Duration
	for b.Loop() {
		t := time.Now()
		if got := code(a.ask("call", call0(url, "GET"))); got != "confirmed" {
			b.Fatal(got)
		}
		brokered = append(brokered, time.Since(t))
		t = time.Now()
		sync()
		direct()
		sync()
		floor = append(floor, time.Since(t))
	}
	x, y := median(brokered), median(floor)
	b.ReportMetric(float64(x)/float64(y), "ratio")
	b.ReportMetric(float64(x.Microseconds()), "brokered-µs")
	b.ReportMetric(float64(y.Microseconds()), "floor-µs")
	b.ReportMetric(0, "ns/op")
	b.Logf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

// P2 in the repository: calls a second with 16 and 64 callers, over the direct path's.
func BenchmarkP2Throughput(b *testing.B) {
	for _, n := range []int{16, 64} {
		b.Run(map[int]string{16: "16", 64: "64"}[n], func(b *testing.B) {
			_, a, url := benchRig(b)
			http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = n
			run := func(total int, one func()) time.Duration {
				work := make(chan struct{}, total)
				for range total {
					work <- struct{}{}
				}
				close(work)
				done := make(chan struct{})
				t := time.Now()
				for range n {
					go func() {
						for range work {
							one()
						}
						done <- struct{}{}
					}()
				}
				for range n {
					<-done
				}
				return time.Since(t)
			}
			var brokered, direct time.Duration
			calls := 0
			for b.Loop() {
				brokered += run(4*n, func() {
					if got := code(a.ask("call", call0(url, "GET"))); got != "confirmed" {
						b.Error(got)
					}
				})
				direct += run(4*n, func() {
					res, err := http.Get(url)
					if err != nil {
						b.Error(err)
						return
					}
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				})
				calls += 4 * n
			}
			b.ReportMetric(float64(direct)/float64(brokered), "ratio")
			b.ReportMetric(float64(calls)/brokered.Seconds(), "brokered-calls/s")
			b.ReportMetric(float64(calls)/direct.Seconds(), "direct-calls/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// P3: the processor time of a brokered call over a direct one's, with 16 and 64 callers. Caller, gateway and service share
// the process, on both sides of the ratio.
func BenchmarkP3CPU(b *testing.B) {
	for _, n := range []int{16, 64} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			_, a, url := benchRig(b)
			http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = n
			run := func(total int, one func()) time.Duration {
				runtime.GC() // neither side pays for the other's garbage
				before := processorTime(b)
				var left atomic.Int64
				var all sync.WaitGroup
				for range n {
					all.Go(func() {
						for left.Add(1) <= int64(total) {
							one()
						}
					})
				}
				all.Wait()
				return processorTime(b) - before
			}
			var brokered, direct time.Duration
			calls := 0
			for b.Loop() {
				brokered += run(16*n, func() {
					if got := code(a.ask("call", call0(url, "GET"))); got != "confirmed" {
						b.Error(got)
					}
				})
				direct += run(16*n, func() {
					res, err := http.Get(url)
					if err != nil {
						b.Error(err)
						return
					}
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				})
				calls += 16 * n
			}
			b.ReportMetric(float64(brokered)/float64(direct), "ratio")
			b.ReportMetric(float64(brokered.Microseconds())/float64(calls), "brokered-cpu-µs")
			b.ReportMetric(float64(direct.Microseconds())/float64(calls), "direct-cpu-µs")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// processorTime is what this process has used so far, in user and kernel mode.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchRig(b *testing.B) (*rig, *agent0, string) {
	up := newUpstream(b, nil)
	r := newRig(b, "")
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**")
	a := r.agent()
	url := up.URL + "/x"
	first := a.send("call", call0(url, "GET"))
	c := r.card()
	op[api.Grant](r, r.opApprovalGrant, api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run"})
	if got := code(<-first); got != "confirmed" {
		b.Fatal(got)
	}
	return r, a, url
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
