package sessionsql

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"time"
)

// memoryCheckInterval is how often the memory of the process is checked while a statement runs.
const memoryCheckInterval = 20 * time.Millisecond

// startLimits starts the timeout and the memory check of a statement. The caller must call end,
// which waits until the check has stopped.
func (s *Store) startLimits(outer context.Context) (ctx context.Context, end func()) {
	timed, stop := context.WithTimeoutCause(outer, s.cfg.Timeout, errTime)
	ctx, cancel := context.WithCancelCause(timed)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.watchMemory(ctx, cancel)
	}()
	return ctx, func() {
		cancel(nil)
		stop()
		<-done
	}
}

// watchMemory cancels a statement if the process grows too much while it runs: SQLite sorts, groups
// and joins in memory, and has no memory limit for a single connection. The growth of the rest of
// the process counts too, so the limit is generous.
func (s *Store) watchMemory(ctx context.Context, cancel context.CancelCauseFunc) {
	before, ok := residentBytes()
	if !ok {
		return
	}
	tick := time.NewTicker(memoryCheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, ok := residentBytes()
		if ok && now-before > s.cfg.MaxMemoryGrowth {
			cancel(errMemory)
			return
		}
		if ok {
			before = min(before, now) // a shrinking process lowers the baseline
		}
	}
}

// residentBytes returns the resident memory of the process. ok is false where the system does not
// report it.
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
