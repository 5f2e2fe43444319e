package shell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/tool"
)

// cleanupWait bounds what is still done when a call has ended. It is also how long a stop may take beyond its
// grace: the tree is killed by then, and only has to go.
const cleanupWait = 15 * time.Second

// lateMaxBytes is how much of what a command wrote before it was stopped, and nobody had read, still goes to the sink: a flood
// would keep the call from ending. The log ends there.
const lateMaxBytes = 1 << 20

// What became of a command whose call ended.
const (
	wasStopped   = "It was stopped."
	neverStarted = "It never started."
	mayRun       = "It may still be running."
	goesOn       = "It goes on without this process."
)

// start is a command about to begin.
type start struct {
	dir     string // the run directory
	command supervise.Command
	logged  int64 // length of the task's log before the command
}

// start starts a command. Without a run there is a result, which says why.
func (b *Bash) start(ctx context.Context, s start) (supervise.Run, tool.Result) {
	if cause := causeOf(ctx, nil); cause != "" {
		return nil, refused(ended(cause, neverStarted))
	}
	err := b.runner.Prepare(ctx, s.dir)
	if err == nil {
		err = writeBase(s.dir, s.logged)
	}
	if err != nil {
		return nil, refused(tool.Internal(fmt.Errorf("prepare command: %w", err)))
	}
	run, err := b.runner.Start(ctx, s.dir, s.command)
	switch {
	case err == nil:
		return run, tool.Result{}
	case errors.Is(err, supervise.Spent): // somebody else has this execution, or revoked it
		return nil, tool.Internal(fmt.Errorf("start command: %w", err))
	case errors.Is(err, supervise.NotStarted):
		return nil, refused(notStarted(ctx, err))
	}
	return b.settleStart(ctx, s.dir, err)
}

// settleStart finds out whether a command runs whose start went wrong in the middle, for instance because the
// call was canceled meanwhile.
func (b *Bash) settleStart(ctx context.Context, dir string, why error) (supervise.Run, tool.Result) {
	remains, run, err := b.find(ctx, dir)
	switch {
	case err != nil:
		return nil, tool.Internal(errors.Join(fmt.Errorf("start command: %w", why), err))
	case run != nil:
		return run, tool.Result{}
	case remains == supervise.Gone:
		return nil, orphaned()
	}
	return nil, refused(notStarted(ctx, why))
}

func notStarted(ctx context.Context, err error) tool.Result {
	if cause := causeOf(ctx, nil); cause != "" {
		return ended(cause, neverStarted)
	}
	return tool.Internal(fmt.Errorf("start command: %w", err))
}

// follow reports a command's output until it ends, and makes its result. When the call ends first, the
// command is stopped, unless it is to outlive us.
func (b *Bash) follow(ctx context.Context, dir string, run supervise.Run, out *output) tool.Result {
	exit, err := run.Follow(ctx, 0, out.take)
	if err == nil {
		return out.result(exit)
	}
	cause := causeOf(ctx, err)
	switch {
	case cause == perdure.CauseShutdown, cause == perdure.CauseSuperseded:
		return ended(cause, goesOn) // the next runtime, or the one that has the work now, finds the command
	case cause != "":
		return b.stop(ctx, run, out, cause)
	}
	return b.broken(ctx, dir, err)
}

// stop ends a command because its call ended, and reports what it wrote meanwhile. A result that came before
// the stop is kept (RC3).
func (b *Bash) stop(ctx context.Context, run supervise.Run, out *output, cause perdure.Cause) tool.Result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.grace+cleanupWait)
	defer cancel()
	if err := run.Stop(ctx, b.grace); err != nil && !errors.Is(err, supervise.Vanished) {
		return ended(cause, mayRun)
	}
	out.deaf = true
	exit, err := run.Follow(ctx, out.next, out.take)
	if err != nil {
		return ended(cause, wasStopped)
	}
	if !exit.Cancelled {
		return out.result(exit)
	}
	r := ended(cause, wasStopped)
	r.ExitCode = &exit.Code
	return r
}

// broken is the result of a command that can be followed no more.
func (b *Bash) broken(ctx context.Context, dir string, err error) tool.Result {
	switch {
	case errors.Is(err, supervise.Vanished):
		// Find kills what is left of the command.
		if _, _, err := b.find(ctx, dir); err != nil {
			return tool.Internal(fmt.Errorf("stop what a dead supervisor left: %w", err))
		}
		return orphaned()
	case errors.Is(err, supervise.Corrupt):
		r := tool.Error("the command's output file is truncated or damaged: what it did and how it ended is not known")
		r.Err, r.ErrorAs = err, perdure.ErrorUnknown
		return r
	}
	return tool.Internal(fmt.Errorf("follow command: %w", err))
}

// orphaned is the result of a command whose supervisor was killed. With it the command dies.
func orphaned() tool.Result {
	r := tool.Error("the command's supervisor was killed; the command was stopped")
	r.ErrorAs = perdure.ErrorOrphaned
	return r
}

// ended is the result of a command whose call was ended; fate is what became of the command.
func ended(cause perdure.Cause, fate string) tool.Result {
	text, kind := "The command was canceled.", perdure.ErrorCanceled
	switch cause {
	case perdure.CauseInterrupt:
		text, kind = "The command was interrupted.", perdure.ErrorInterrupted
	case perdure.CauseDeadline:
		text, kind = "The command reached its deadline.", perdure.ErrorTimeout
	case perdure.CauseStall:
		text, kind = "The command gave no sign of life for too long.", perdure.ErrorTimeout
	}
	r := tool.Error(text + " " + fate)
	r.ErrorAs = kind
	return r
}

// find is Find for a call that may have ended already.
func (b *Bash) find(ctx context.Context, dir string) (supervise.Remains, supervise.Run, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupWait)
	defer cancel()
	return b.runner.Find(ctx, dir)
}

// causeOf returns why following ended: a cause of ours in err, or else that of ctx. Empty: neither.
func causeOf(ctx context.Context, err error) perdure.Cause {
	var cause perdure.Cause
	if errors.As(err, &cause) {
		return cause
	}
	switch {
	case ctx.Err() == nil:
		return ""
	case perdure.CauseOf(ctx) != "":
		return perdure.CauseOf(ctx)
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return perdure.CauseDeadline
	}
	return perdure.CauseCanceled
}

// output takes a command's output as it comes: all of it for the sink, some of it for the model.
type output struct {
	sink   tool.Sink
	known  int64      // bytes that the task's log has already
	secret tool.Known // of the session; nil: none
	next   int64      // offset of what comes after
	deaf   bool       // the command is being stopped: what the sink answers is known
	late   int64      // bytes that came since then
	stdout clip
	stderr clip
}

// take is one chunk of output. Its error is the sink's cause for the work to end.
func (o *output) take(c supervise.Chunk) error {
	missing := c.Offset > o.next
	if missing {
		o.stdout.skip()
		o.stderr.skip()
	}
	if lost := c.Offset - max(o.next, o.known); lost > 0 && missing && !o.deaf {
		if sink, ok := o.sink.(tool.Skipper); ok {
			sink.Skip(lost) // its answer comes again with the output behind it
		}
	}
	o.next = c.Offset + int64(len(c.Bytes))
	stream := &o.stdout
	if c.Stream == supervise.Stderr {
		stream = &o.stderr
	}
	stream.write(c.Bytes)
	fresh := c.Bytes[min(max(0, o.known-c.Offset), int64(len(c.Bytes))):]
	if o.deaf {
		if o.late += int64(len(fresh)); o.late > lateMaxBytes {
			return nil
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	// A copy: the bytes are the reader's again when this returns, and a sink may keep its piece.
	if cause := o.sink.Output(c.Stream.String(), slices.Clone(fresh)); cause != "" && !o.deaf {
		return cause
	}
	return nil
}

// result is what the model reads of a command that ended by itself, or by its own time limit.
func (o *output) result(e supervise.Exit) tool.Result {
	if e.Error != "" {
		return tool.Failf("the command could not be run: %s", e.Error)
	}
	for _, end := range e.Ends {
		stream := &o.stdout
		if end.Stream == supervise.Stderr {
			stream = &o.stderr
		}
		if end.Total > 0 {
			stream.end(end.Total, end.Bytes)
		} else {
			stream.finish(end.Dropped, end.Bytes)
		}
	}
	a := answer{ExitCode: e.Code, TimedOut: e.TimedOut}
	var cutOut, cutErr bool
	a.Stdout, cutOut = o.stdout.text(o.secret)
	a.Stderr, cutErr = o.stderr.text(o.secret)
	a.Truncated = cutOut || cutErr || e.DroppedBytes > 0 || e.RotatedBytes > 0
	if e.Limit != "" {
		a.Stderr += "\n[The command was killed: " + e.Limit + ".]"
	}
	r := tool.Success(a)
	r.ExitCode = &e.Code
	return r
}
