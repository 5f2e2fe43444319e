package supervise

import (
	"context"
	"fmt"
	"time"
)

// How often a follower looks for more: at first after pollMin, then more and more slowly, until something comes.
const (
	pollMin = 5 * time.Millisecond
	pollMax = 100 * time.Millisecond
)

// floodIdleTimes is how much longer than it read a follower rests who could not keep up: who reads a flood sees samples of it
// anyway, and takes a fifth of a processor for them at most.
const floodIdleTimes = 4

// floodIdleMax bounds that rest: the long beginning was read, too.
const floodIdleMax = time.Second

// lingerWait bounds the wait for a supervisor that has written its exit record and has only to leave.
const lingerWait = time.Second

// pace is a wait that grows while nothing happens. The zero value is ready.
type pace struct{ wait time.Duration }

// reset makes the next wait short.
func (p *pace) reset() { p.wait = 0 }

// next waits, from pollMin to pollMax, or returns ctx's cause.
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

// follower is one Follow under way.
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
		// The end is looked for before the output is read, so that an end which is seen has all its output before it.
		e, ended, endErr := f.run.end()
		began, skipped := time.Now(), f.frames.skipped
		passed, err := f.frames.read(f.from, ended || endErr != nil, f.checked(ctx))
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

// checked lets a cancelled ctx end a long read between two chunks.
func (f *follower) checked(ctx context.Context) func(Chunk) error {
	return func(c Chunk) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return f.emit(c)
	}
}

// checkEnd compares what was read with what was written.
func (f *follower) checkEnd(e Exit) error {
	if f.frames.offset != e.OutputBytes {
		return f.frames.corrupt("the output ends here, but %d bytes were written", e.OutputBytes)
	}
	if f.frames.skipped > 0 && e.RotatedBytes == 0 {
		return f.frames.corrupt("%d bytes before this are missing, and none gave way", f.frames.skipped)
	}
	if f.from > e.OutputBytes {
		return fmt.Errorf("follow from offset %d: the output has only %d bytes", f.from, e.OutputBytes)
	}
	return nil
}
