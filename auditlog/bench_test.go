package auditlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// bigLog writes about size bytes of records with 512 B bodies, perCommit of them in a batch.
func bigLog(tb testing.TB, size int64, perCommit int) string {
	tb.Helper()
	dir, w := newLog(tb, Options{})
	batch := make([]Entry, perCommit)
	for i := range batch {
		batch[i] = Entry{Kind: Note, Body: bytes.Repeat([]byte{byte(i)}, 512)}
	}
	each := int64(perCommit * recordSize(batch[0]))
	for n := int64(0); n < size; n += each {
		mustAppend(tb, w, batch...)
	}
	w.Close()
	return dir
}

func median(l []time.Duration) time.Duration {
	slices.Sort(l)
	return l[len(l)/2]
}

// BenchmarkP4Verify: Verify of 512 B records beside SHA-256 over the same bytes, in turns, on one core, by the CPU time of each. ratio is
// Verify's throughput over SHA-256's, by medians; the goal is 0.85. With one record in a commit the bytes are others.
func BenchmarkP4Verify(b *testing.B) {
	for _, perCommit := range []int{1000, 1} {
		b.Run(fmt.Sprintf("perCommit=%d", perCommit), func(b *testing.B) {
			dir := bigLog(b, 64<<20, perCommit)
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			var verified, hashed []time.Duration
			var size int64
			buf := make([]byte, 128<<10)
			b.ResetTimer()
			for range b.N {
				start := cpuTime(b)
				r := verifyDir(b, dir, VerifyOptions{})
				verified = append(verified, cpuTime(b)-start)
				wantVerdict(b, r, Intact)
				size = r.Bytes
				start = cpuTime(b)
				h := sha256.New()
				for n := int64(1); n <= r.Segments; n++ {
					f, err := os.Open(filepath.Join(dir, segmentsFolder, segmentName(uint64(n))))
					if err != nil {
						b.Fatal(err)
					}
					if _, err := io.CopyBuffer(h, struct{ io.Reader }{f}, buf); err != nil {
						b.Fatal(err)
					}
					f.Close()
				}
				h.Sum(nil)
				hashed = append(hashed, cpuTime(b)-start)
			}
			v, s := median(verified), median(hashed)
			b.SetBytes(size)
			b.ReportMetric(float64(s)/float64(v), "ratio")
			b.ReportMetric(float64(size)/1e6/v.Seconds(), "verify-MB/s")
			b.ReportMetric(float64(size)/1e6/s.Seconds(), "sha256-MB/s")
		})
	}
}

// BenchmarkP8Append: one writer's Append of a 512 B record beside a write and fdatasync of as many bytes, in turns, on
// one disk, both in space allocated by the same steps. ratio is append over raw, p50; the goal is 2.0 at the most.
func BenchmarkP8Append(b *testing.B) {
	_, w := newLogOn(b, Options{}, osDisk{})
	raw, err := osDisk{}.create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	e := Entry{Kind: Intent, Subject: subject(1), Body: make([]byte, 512), Own: make([]byte, 64)}
	buf := bytes.Repeat([]byte{1}, recordSize(e)+batchOverhead)
	var size, room int64
	var appended, written []time.Duration
	b.ResetTimer()
	for range b.N {
		start := time.Now()
		if _, err := w.Append(context.Background(), e); err != nil {
			b.Fatal(err)
		}
		appended = append(appended, time.Since(start))
		start = time.Now()
		if size+int64(len(buf)) > room {
			if err := raw.Allocate(room, room+roomStep); err != nil {
				b.Fatal(err)
			}
			room += roomStep
		}
		if _, err := raw.WriteAt(buf, size); err != nil {
			b.Fatal(err)
		}
		size += int64(len(buf))
		if err := raw.Sync(); err != nil {
			b.Fatal(err)
		}
		written = append(written, time.Since(start))
	}
	a, r := median(appended), median(written)
	b.ReportMetric(float64(a)/float64(r), "ratio")
	b.ReportMetric(float64(a.Microseconds()), "append-p50-µs")
	b.ReportMetric(float64(r.Microseconds()), "raw-p50-µs")
}

// BenchmarkBuild is what an Append costs besides the disk.
func BenchmarkBuild(b *testing.B) {
	_, w := newLog(b, Options{})
	e := Entry{Kind: Note, Body: make([]byte, 512)}
	b.ReportAllocs()
	for b.Loop() {
		mustAppend(b, w, e)
	}
}

// TestVerifyMemory: what Verify allocates in all stays below its bound, so what it holds does too.
func TestVerifyMemory(t *testing.T) {
	dir := bigLog(t, 40<<20, 1000)
	pub := readPub(t, dir)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	told := int64(0)
	r := verify(t, os.DirFS(filepath.Join(dir, segmentsFolder)), pub, VerifyOptions{Progress: func(done, total int64) {
		if done <= told || done > total {
			t.Fatalf("progress %d after %d of %d", done, told, total)
		}
		told = done
	}})
	runtime.ReadMemStats(&after)
	wantVerdict(t, r, Intact)
	if told != r.Bytes || r.Bytes < 40<<20 {
		t.Fatalf("progress ended at %d of %d bytes", told, r.Bytes)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Fatalf("%d bytes allocated", n)
	}
}
