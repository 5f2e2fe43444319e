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

// rolePark is a process that parks runs and says what they weigh.
const rolePark = "park"

// A session of rolePark holds this many runs, and as many sessions spawn at once.
const (
	runsASession  = 50
	sessionsAOnce = 8
)

// saidWeight is the answer of rolePark: runs, then the growth of heap, stacks and resident memory in bytes, and of
// goroutines, and last how many nanoseconds of a core a second of waiting took.
const saidWeight = "weight %d %d %d %d %d %d"

// measureParked measures what a background run costs that only waits, in processes of their own. The caps on runs are off.
func measureParked(ctx context.Context, l *lab) error {
	if err := l.parked(ctx, "parked_small", l.count(1_000, 20)); err != nil {
		return err
	}
	if l.onPostgres() { // what a run holds does not depend on the store, and to make them takes long
		return nil
	}
	return l.parked(ctx, "parked_large", l.count(10_000, 60))
}

func (l *lab) parked(ctx context.Context, name string, runs int) error {
	l.say("parked, %d runs", runs)
	at, err := l.place(ctx, "parked")
	if err != nil {
		return err
	}
	c, err := startChild(ctx, l.play(rolePark, at, runs))
	if err != nil {
		return err
	}
	defer c.kill()
	began := time.Now()
	var n, heap, stacks, resident, goroutines, busy int64
	if _, err := c.hear(ctx, saidWeight, &n, &heap, &stacks, &resident, &goroutines, &busy); err != nil {
		if ctx.Err() != nil {
			return err
		}
		l.report.missing(name, err) // a machine that cannot do it is told so, and the rest is worth having
		return nil
	}
	l.say("parked, %d runs took %.1fs", runs, time.Since(began).Seconds())
	l.report.set(name, "runs", float64(n))
	l.reportWeight(name, n, weight{heap, stacks, resident, goroutines, busy})
	return nil
}

// reportWeight writes what n of something weigh together, for one of them.
func (l *lab) reportWeight(name string, n int64, all weight) {
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

// weight is what a process holds after everything was let go that can be, and, where it was measured, how many nanoseconds of a
// core it takes in a second in which nothing happens.
type weight struct{ heap, stacks, resident, goroutines, busy int64 }

func weigh() weight {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return weight{int64(m.HeapAlloc), int64(m.StackInuse), residentBytes(), int64(runtime.NumGoroutine()), 0}
}

// idleCost is what this process takes of a core while nothing happens, for a second.
func idleCost(ctx context.Context) (int64, error) {
	began := cpuTime()
	select {
	case <-time.After(time.Second):
		return int64(cpuTime() - began), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// playPark parks runs, waits until nothing moves any more, and says what they weigh.
func playPark(ctx context.Context, at worldConfig, runs int, out io.Writer) error {
	at.Tools = &tools{}
	w, err := openWorld(ctx, at)
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

// grown says what this process holds more once park has parked n of something and nothing moves any more. Its profiles are
// of that time.
func (w *world) grown(ctx context.Context, profiles string, n int, park func() error) (weight, error) {
	before := weigh()
	stop, err := startProfiles(os.Getenv(childProfiles), fmt.Sprintf("%s_%d", profiles, n))
	if err != nil {
		return weight{}, err
	}
	if err := park(); err != nil {
		return weight{}, err
	}
	if err := w.quiet(ctx, n); err != nil {
		return weight{}, err
	}
	after := weigh()
	busy, err := idleCost(ctx)
	if err != nil {
		return weight{}, err
	}
	return weight{
		heap: after.heap - before.heap, stacks: after.stacks - before.stacks, resident: after.resident - before.resident,
		goroutines: after.goroutines - before.goroutines, busy: busy,
	}, stop()
}

// warm makes what every process has sooner or later: connections, prepared statements, caches.
func (w *world) warm(ctx context.Context) error {
	id, err := w.session(ctx, agent(false))
	if err != nil {
		return err
	}
	return w.rested(ctx, id, order{tool: "noop", all: 4, step: 2})
}

// park spawns runs in sessions of runsASession, a few sessions at once.
func (w *world) park(ctx context.Context, runs int) error {
	sessions := portions(runs, runsASession)
	_, err := together(sessionsAOnce, func(int) error {
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

// portions shares all out, so many each, and the rest to the last. The channel holds all of them and is closed.
func portions(all, each int) <-chan int {
	shares := make(chan int, all/each+1)
	for left := all; left > 0; left -= each {
		shares <- min(left, each)
	}
	close(shares)
	return shares
}

// quiet waits until all runs were entered and the store has had nothing to write but a beat for a while.
func (w *world) quiet(ctx context.Context, runs int) error {
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
