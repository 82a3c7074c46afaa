package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkP7: durable appends by 64 callers to the audit log, sealed and signed, beside as many one-row transactions of
// SQLite, WAL with synchronous FULL, on one disk, in turns. ratio is appends over transactions a second, the goal 7;
// p99's is one append's 99th percentile over one transaction's, the goal 0.15 at the most. The log is written by its
// own package's test binary: the store knows no log, and that holds for its tests.
func BenchmarkP7(b *testing.B) {
	bin := filepath.Join(b.TempDir(), "auditlog.test")
	if out, err := exec.Command("go", "test", "-c", "-o", bin, "sallyport/auditlog").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	var log, lite []pace
	round := func(b *testing.B) {
		log = append(log, logPace(b, bin))
		lite = append(lite, sqlitePace(b))
	}
	b.Run("rate", func(b *testing.B) {
		for range b.N {
			round(b)
		}
		l, s := median(log, func(p pace) float64 { return p.rate }), median(lite, func(p pace) float64 { return p.rate })
		b.ReportMetric(l/s, "ratio")
		b.ReportMetric(l, "appends/s")
		b.ReportMetric(s, "transactions/s")
	})
	b.Run("p99", func(b *testing.B) {
		for range b.N {
			round(b)
		}
		l, s := median(log, func(p pace) float64 { return p.p99 }), median(lite, func(p pace) float64 { return p.p99 })
		b.ReportMetric(l/s, "ratio")
		b.ReportMetric(l, "append-p99-ms")
		b.ReportMetric(s, "transaction-p99-ms")
	})
}

// pace is calls a second, and the 99th percentile of one in milliseconds.
type pace struct{ rate, p99 float64 }

func median(l []pace, of func(pace) float64) float64 {
	v := make([]float64, len(l))
	for i, p := range l {
		v[i] = of(p)
	}
	slices.Sort(v)
	return v[len(v)/2]
}

func logPace(b *testing.B, bin string) pace {
	b.Helper()
	cmd := exec.Command(bin)
	cmd.Env = append(os.Environ(), "AUDITLOG_TEST_APPEND_DIR="+filepath.Join(b.TempDir(), "log"))
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("append: %v", err)
	}
	var n, total, p99 float64
	if _, err := fmt.Sscan(string(out), &n, &total, &p99); err != nil {
		b.Fatalf("append: %v in %q", err, out)
	}
	return pace{n / total * 1e9, p99 / 1e6}
}

func sqlitePace(b *testing.B) pace {
	b.Helper()
	const callers, each = 64, 20
	path := filepath.Join(b.TempDir(), "p7.db")
	db, err := sql.Open("sqlite3", "file:"+path+"?_journal_mode=WAL&_synchronous=FULL&_txlock=immediate")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	// One connection: with more of them SQLite's writers wait for its lock by polling, which is slower.
	db.SetMaxOpenConns(1)
	ctx := context.Background()
	if _, err := db.ExecContext(ctx, "CREATE TABLE record (seq INTEGER PRIMARY KEY, subject BLOB, body BLOB) STRICT"); err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 512)
	took := make([][]time.Duration, callers)
	var all sync.WaitGroup
	start := time.Now()
	for i := range callers {
		all.Go(func() {
			for range each {
				start := time.Now()
				if _, err := db.ExecContext(ctx, "INSERT INTO record (subject, body) VALUES (?, ?)", body[:16], body); err != nil {
					b.Error(err)
					return
				}
				took[i] = append(took[i], time.Since(start))
			}
		})
	}
	all.Wait()
	total := time.Since(start)
	l := slices.Concat(took...)
	if len(l) != callers*each {
		b.Fatalf("%d of %d transactions", len(l), callers*each)
	}
	slices.Sort(l)
	return pace{float64(len(l)) / total.Seconds(), float64(l[len(l)*99/100].Microseconds()) / 1e3}
}
