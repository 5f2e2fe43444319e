package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// rolePark is a process that parks runs and reports their memory.
const rolePark = "park"

// A session of rolePark holds this many runs, and as many sessions spawn concurrently.
const (
	runsASession  = 50
	sessionsAOnce = 8
)

// saidWeight is the report of rolePark: runs, then the growth of heap, stacks and resident memory
// in bytes, and of goroutines, and last the CPU nanoseconds of an idle second.
const saidWeight = "weight %d %d %d %d %d %d"

// measureParked measures the cost of a waiting background run, in child processes. The limits on
// runs are off.
func measureParked(ctx context.Context, l *runner) error {
	if err := l.parked(ctx, "parked_small", l.count(1_000, 20)); err != nil {
		return err
	}
	if l.onPostgres() { // independent of the store, and slow to set up
		return nil
	}
	return l.parked(ctx, "parked_large", l.count(10_000, 60))
}

func (l *runner) parked(ctx context.Context, name string, runs int) error {
	l.progressf("parked, %d runs", runs)
	at, err := l.databaseURL(ctx, "parked")
	if err != nil {
		return err
	}
	c, err := startChild(ctx, l.startRole(rolePark, at, runs))
	if err != nil {
		return err
	}
	defer c.kill()
	began := time.Now()
	var n, heap, stacks, resident, goroutines, busy int64
	if _, err := c.readLines(ctx, saidWeight, &n, &heap, &stacks, &resident, &goroutines, &busy); err != nil {
		if ctx.Err() != nil {
			return err
		}
		l.report.missing(name, err) // reported as missing on a machine that cannot do it; other results are kept
		return nil
	}
	l.progressf("parked, %d runs took %.1fs", runs, time.Since(began).Seconds())
	l.report.set(name, "runs", float64(n))
	l.reportWeight(name, n, memoryUse{heap, stacks, resident, goroutines, busy})
	return nil
}

// reportWeight reports the cost per item of n items.
func (l *runner) reportWeight(name string, n int64, all memoryUse) {
	each := func(all int64) float64 { return float64(all) / float64(n) }
	l.report.set(name, "n", float64(n))
	l.report.set(name, "heap_bytes", each(all.heap))
	l.report.set(name, "stack_bytes", each(all.stacks))
	l.report.set(name, "heap_and_stack_bytes", each(all.heap+all.stacks))
	l.report.set(name, "rss_bytes", each(all.resident))
	l.report.set(name, "goroutines", each(all.goroutines))
	l.report.set(name, "idle_cores_ratio", float64(all.busy)/float64(time.Second))
	l.report.atMost(name, "heap_and_stack_bytes", goal{sqlite: 8 << 10})
}

// memoryUse is the memory of a process after garbage collection and, where it was measured, its CPU
// nanoseconds in an idle second.
type memoryUse struct{ heap, stacks, resident, goroutines, busy int64 }

func measureMemory() memoryUse {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memoryUse{int64(m.HeapAlloc), int64(m.StackInuse), residentBytes(), int64(runtime.NumGoroutine()), 0}
}

// idleCost returns the CPU time of this process in an idle second.
func idleCost(ctx context.Context) (int64, error) {
	began := cpuTime()
	select {
	case <-time.After(time.Second):
		return int64(cpuTime() - began), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// runParkRole parks runs, waits until nothing changes, and reports their memory.
func runParkRole(ctx context.Context, at engineRigConfig, runs int, out io.Writer) error {
	at.Tools = &tools{}
	w, err := openEngineRig(ctx, at)
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.warm(ctx); err != nil {
		return err
	}
	grown, err := w.grown(ctx, rolePark, runs, func() error { return w.park(ctx, runs) })
	if err != nil {
		return err
	}
	fmt.Fprintf(out, saidWeight+"\n", runs, grown.heap, grown.stacks, grown.resident, grown.goroutines, grown.busy)
	<-ctx.Done()
	return nil
}

// grown returns the growth of this process after park has parked n items and nothing changes any
// more. Its profiles cover that time.
func (w *engineRig) grown(ctx context.Context, profiles string, n int, park func() error) (memoryUse, error) {
	before := measureMemory()
	stop, err := startProfiles(os.Getenv(childProfiles), fmt.Sprintf("%s_%d", profiles, n))
	if err != nil {
		return memoryUse{}, err
	}
	if err := park(); err != nil {
		return memoryUse{}, err
	}
	if err := w.quiet(ctx, n); err != nil {
		return memoryUse{}, err
	}
	after := measureMemory()
	busy, err := idleCost(ctx)
	if err != nil {
		return memoryUse{}, err
	}
	return memoryUse{
		heap: after.heap - before.heap, stacks: after.stacks - before.stacks,
		resident:   after.resident - before.resident,
		goroutines: after.goroutines - before.goroutines, busy: busy,
	}, stop()
}

// warm creates what every process has sooner or later: connections, prepared statements, caches.
func (w *engineRig) warm(ctx context.Context) error {
	id, err := w.session(ctx, agent(false))
	if err != nil {
		return err
	}
	return w.waitIdle(ctx, id, order{tool: "noop", all: 4, step: 2})
}

// park spawns runs in sessions of runsASession, a few sessions concurrently.
func (w *engineRig) park(ctx context.Context, runs int) error {
	sessions := batches(runs, runsASession)
	_, err := maxConcurrent(sessionsAOnce, func(int) error {
		for n := range sessions {
			id, err := w.session(ctx, agent(false))
			if err != nil {
				return err
			}
			if err := w.turn(ctx, id, order{tool: "spawn", all: n, step: n}); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// batches splits all into portions of each, and a last smaller one. The channel contains all
// portions and is closed.
func batches(all, each int) <-chan int {
	shares := make(chan int, all/each+1)
	for left := all; left > 0; left -= each {
		shares <- min(left, each)
	}
	close(shares)
	return shares
}

// quiet waits until all runs were entered and the store has written only heartbeats for a while.
func (w *engineRig) quiet(ctx context.Context, runs int) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	last := int64(-1)
	for limit := time.Now().Add(childPatience); time.Now().Before(limit); {
		now := w.transactions()
		if w.tools.parked.Load() == int64(runs) && now-last <= 1 && last >= 0 {
			return nil
		}
		last = now
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("%d of %d runs were parked within %s", w.tools.parked.Load(), runs, childPatience)
}
