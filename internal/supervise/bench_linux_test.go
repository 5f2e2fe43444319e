package supervise_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/supervise"
)

// BenchmarkSupervisedStart starts commands, with the two steps that a caller waits for: Prepare,
// before the claim, and Start, until the supervisor has the ticket. It reports their mean times,
// that of the first byte of output after Start was called, and the memory of a supervisor whose
// command is running: of this test binary, and of a program that is only a supervisor.
func BenchmarkSupervisedStart(b *testing.B) {
	b.Run("self", func(b *testing.B) { benchmarkStart(b, newLocal(b)) })
	b.Run("own", func(b *testing.B) { benchmarkStart(b, newLocalOf(b, buildSupervisor(b))) })
}

func benchmarkStart(b *testing.B, l *supervise.Local) {
	root := newRoot(b, b.TempDir())
	b.ResetTimer()
	ctx := b.Context()
	c := supervise.Command{Argv: []string{"/bin/sh", "-c", "echo; exec sleep 60"}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/"}
	var prepare, start, first time.Duration
	var rssKiB, anonKiB int
	for i := range b.N {
		dir := filepath.Join(root, strconv.Itoa(i))
		began := time.Now()
		if err := l.Prepare(ctx, dir); err != nil {
			b.Fatal(err)
		}
		prepare += time.Since(began)
		began = time.Now()
		run, err := l.Start(ctx, dir, c)
		if err != nil {
			b.Fatal(err)
		}
		start += time.Since(began)
		b.StopTimer()
		_, err = run.Follow(ctx, 0, func(supervise.Chunk) error { return os.ErrClosed })
		if !isKind(err, os.ErrClosed) {
			b.Fatal(err)
		}
		first += time.Since(began)
		rssKiB += statusKiB(b, run.Record().PID, "VmRSS")
		anonKiB += statusKiB(b, run.Record().PID, "RssAnon")
		if err := run.Stop(ctx, 0); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(perOp(b, prepare), "prepare-ms")
	b.ReportMetric(perOp(b, start), "start-ms")
	b.ReportMetric(perOp(b, first), "first-byte-ms")
	b.ReportMetric(float64(rssKiB)/float64(b.N), "rss-KiB")
	b.ReportMetric(float64(anonKiB)/float64(b.N), "anon-KiB")
}

func perOp(b *testing.B, d time.Duration) float64 {
	return float64(d) / float64(time.Millisecond) / float64(b.N)
}

// statusKiB reads a field of /proc/PID/status.
func statusKiB(b *testing.B, pid int, field string) int {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), field+":"); ok {
			n, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatalf("process %d has no %s", pid, field)
	return 0
}
