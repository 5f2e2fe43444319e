package sessionsql

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"time"
)

// watchEvery is how often the memory of the process is looked at while a statement runs.
const watchEvery = 20 * time.Millisecond

// begin gives a statement its clock and its watch. Whoever begins calls end, which waits until both are gone.
func (s *Store) begin(outer context.Context) (ctx context.Context, end func()) {
	timed, stop := context.WithTimeoutCause(outer, s.cfg.Timeout, errTime)
	ctx, cancel := context.WithCancelCause(timed)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.watch(ctx, cancel)
	}()
	return ctx, func() {
		cancel(nil)
		stop()
		<-done
	}
}

// watch ends a statement during which the process grows too much: what a statement sorts, groups and joins is held in
// memory, and SQLite has no limit for one connection. What others do meanwhile is counted too, so the limit is generous.
func (s *Store) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	before, ok := residentBytes()
	if !ok {
		return
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, ok := residentBytes()
		if ok && now-before > s.cfg.MemoryBytes {
			cancel(errMemory)
			return
		}
		if ok {
			before = min(before, now) // what others gave back meanwhile does not count for this one
		}
	}
}

// residentBytes is how much memory the process holds, where the system tells it.
func residentBytes() (int64, bool) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err == nil
}
