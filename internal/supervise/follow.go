package supervise

import (
	"context"
	"fmt"
	"time"
)

// How often a follower polls for output: first after pollMin, then more and more slowly until
// something arrives.
const (
	pollMin = 5 * time.Millisecond
	pollMax = 100 * time.Millisecond
)

// floodIdleTimes is how many times longer than its last read a follower pauses that could not keep
// up. It sees only samples of the output anyway, and must not use more than a fifth of a processor
// for them.
const floodIdleTimes = 4

// floodIdleMax limits that pause, since the last read may have been that of the long beginning.
const floodIdleMax = time.Second

// lingerWait limits the wait for a supervisor that has written its exit record and only has to
// exit.
const lingerWait = time.Second

// pace is a wait that grows as long as nothing happens. The zero value is ready to use.
type pace struct{ wait time.Duration }

// reset makes the next wait short.
func (p *pace) reset() { p.wait = 0 }

// next waits between pollMin and pollMax, or returns ctx's cause.
func (p *pace) next(ctx context.Context) error {
	p.wait = min(max(p.wait*3/2, pollMin), pollMax)
	return pause(ctx, p.wait)
}

// pause waits for d, or returns ctx's cause.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// follower is one Follow in progress.
type follower struct {
	run    *localRun
	frames *frameReader
	from   int64
	emit   func(Chunk) error
}

// follow reads until the exit record says that there is no more.
func (f *follower) follow(ctx context.Context) (Exit, error) {
	var p pace
	for {
		// Look for the exit record before the output, so that all output was written by the time
		// the record is seen.
		e, ended, endErr := f.run.end()
		began, skipped := time.Now(), f.frames.skipped
		passed, err := f.frames.read(f.from, ended || endErr != nil, f.withContext(ctx))
		switch {
		case err != nil:
			return Exit{}, err
		case endErr != nil:
			return Exit{}, endErr
		case ended:
			return e, f.checkEnd(e)
		}
		if passed > 0 {
			p.reset()
		}
		if f.frames.skipped > skipped {
			err = pause(ctx, min(max(floodIdleTimes*time.Since(began), pollMax), floodIdleMax))
		} else {
			err = p.next(ctx)
		}
		if err != nil {
			return Exit{}, err
		}
	}
}

// withContext wraps emit so that a cancelled ctx ends a long read between two chunks.
func (f *follower) withContext(ctx context.Context) func(Chunk) error {
	return func(c Chunk) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return f.emit(c)
	}
}

// checkEnd compares what was read with what the exit record says was written.
func (f *follower) checkEnd(e Exit) error {
	if f.frames.offset != e.OutputBytes {
		return f.frames.corrupt("the output ends here, but %d bytes were written", e.OutputBytes)
	}
	if f.frames.skipped > 0 && e.RotatedBytes == 0 {
		return f.frames.corrupt("%d bytes before this are missing, although none were rotated out", f.frames.skipped)
	}
	if f.from > e.OutputBytes {
		return fmt.Errorf("follow from offset %d: the output has only %d bytes", f.from, e.OutputBytes)
	}
	return nil
}
