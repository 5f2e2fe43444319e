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

// cleanupWait limits the work after a call has ended. It is also how long a stop may take beyond
// its grace period: by then the process tree is killed and only has to exit.
const cleanupWait = 15 * time.Second

// lateMaxBytes limits how much output from before a stop is still passed on after it: a flood of
// output would delay the end of the call. The log ends at this limit.
const lateMaxBytes = 1 << 20

// What happened to a command whose call ended.
const (
	endStopped    = "It was stopped."
	endNotStarted = "It never started."
	endUnknown    = "It may still be running."
	endContinues  = "It continues without this process."
)

// start is a command to be started.
type start struct {
	dir     string // the run directory
	command supervise.Command
	logged  int64 // length of the task's log before the command started
}

// start starts a command. If the run is nil, the result says why.
func (b *Bash) start(ctx context.Context, s start) (supervise.Run, tool.Result) {
	if cause := causeOf(ctx, nil); cause != "" {
		return nil, refused(ended(cause, endNotStarted))
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
	case errors.Is(err, supervise.Spent) && causeOf(ctx, nil) == "": // another process has this execution, or revoked it
		return nil, tool.Internal(fmt.Errorf("start command: %w", err))
	case errors.Is(err, supervise.NotStarted):
		return nil, refused(notStarted(ctx, err))
	}
	return b.settleStart(ctx, s.dir, err)
}

// settleStart finds out whether a command is running after its start failed halfway, for instance
// because the call was canceled.
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
		return ended(cause, endNotStarted)
	}
	return tool.Internal(fmt.Errorf("start command: %w", err))
}

// follow reports a command's output until it ends, and returns its result. If the call ends first,
// it stops the command, unless the command is to survive this process.
func (b *Bash) follow(ctx context.Context, dir string, run supervise.Run, out *output) tool.Result {
	exit, err := run.Follow(ctx, 0, out.addChunk)
	if err == nil {
		return out.result(exit)
	}
	cause := causeOf(ctx, err)
	switch {
	case cause == perdure.CauseShutdown, cause == perdure.CauseSuperseded:
		return ended(cause, endContinues) // the next process, or the new owner of the work, finds the command
	case cause != "":
		return b.stop(ctx, run, out, cause)
	}
	return b.broken(ctx, dir, err)
}

// stop stops a command because its call has ended, and reports its remaining output. If the command
// finished before the stop, its result is kept (RC3).
func (b *Bash) stop(ctx context.Context, run supervise.Run, out *output, cause perdure.Cause) tool.Result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.grace+cleanupWait)
	defer cancel()
	if err := run.Stop(ctx, b.grace); err != nil && !errors.Is(err, supervise.Vanished) {
		return ended(cause, endUnknown)
	}
	out.stopping = true
	exit, err := run.Follow(ctx, out.next, out.addChunk)
	if err != nil {
		return ended(cause, endStopped)
	}
	if !exit.Cancelled {
		return out.result(exit)
	}
	r := ended(cause, endStopped)
	r.ExitCode = &exit.Code
	return r
}

// broken is the result of a command that can no longer be followed.
func (b *Bash) broken(ctx context.Context, dir string, err error) tool.Result {
	switch {
	case errors.Is(err, supervise.Vanished):
		// Find kills what is left of the command.
		if _, _, err := b.find(ctx, dir); err != nil {
			return tool.Internal(fmt.Errorf("stop the remains of a dead supervisor: %w", err))
		}
		return orphaned()
	case errors.Is(err, supervise.Corrupt):
		r := tool.Error("the command's output file is truncated or damaged; what the command did and how it ended is unknown")
		r.Err, r.ErrorKind = err, perdure.ErrorUnknown
		return r
	}
	return tool.Internal(fmt.Errorf("follow command: %w", err))
}

// orphaned is the result of a command whose supervisor was killed. The command is killed with it.
func orphaned() tool.Result {
	r := tool.Error("the command's supervisor was killed; the command was stopped")
	r.ErrorKind = perdure.ErrorOrphaned
	return r
}

// ended is the result of a command whose call has ended; fate says what happened to the command.
func ended(cause perdure.Cause, fate string) tool.Result {
	text, kind := "The command was canceled.", perdure.ErrorCanceled
	switch cause {
	case perdure.CauseInterrupt:
		text, kind = "The command was interrupted.", perdure.ErrorInterrupted
	case perdure.CauseDeadline:
		text, kind = "The command reached its deadline.", perdure.ErrorTimeout
	case perdure.CauseStall:
		text, kind = "The command showed no activity for too long.", perdure.ErrorTimeout
	}
	r := tool.Error(text + " " + fate)
	r.ErrorKind = kind
	return r
}

// find calls Find for a call that may already have ended.
func (b *Bash) find(ctx context.Context, dir string) (supervise.Remains, supervise.Run, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupWait)
	defer cancel()
	return b.runner.Find(ctx, dir)
}

// causeOf returns why following ended: a perdure.Cause in err, or else the cause of ctx. Empty:
// neither.
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

// output receives a command's output: all of it is passed to the sink, and part of it is kept for
// the model.
type output struct {
	sink     tool.Sink
	scope    scope             // of the command, for what is said about refusals
	known    int64             // bytes that the task's log already has
	secret   tool.SecretMasker // the session's secrets; nil: none
	next     int64             // offset of the next output
	stopping bool              // the command is being stopped: the sink's answers are ignored
	late     int64             // bytes received since then
	stdout   clip
	stderr   clip
}

// newOutput returns the receiver of the output of a call's command.
func (b *Bash) newOutput(call tool.Call, env tool.Env, sink tool.Sink) *output {
	return &output{sink: sink, secret: env.SecretMasker, scope: scope{workspace: b.dir, home: b.home(call.Session), advice: b.advice}}
}

// addChunk handles one chunk of output. Its error is the sink's cause for the work to end.
func (o *output) addChunk(c supervise.Chunk) error {
	missing := c.Offset > o.next
	if missing {
		o.stdout.skip()
		o.stderr.skip()
	}
	if lost := c.Offset - max(o.next, o.known); lost > 0 && missing && !o.stopping {
		if sink, ok := o.sink.(tool.Skipper); ok {
			sink.Skip(lost) // its answer is repeated with the next output
		}
	}
	o.next = c.Offset + int64(len(c.Bytes))
	stream := &o.stdout
	if c.Stream == supervise.Stderr {
		stream = &o.stderr
	}
	stream.write(c.Bytes)
	fresh := c.Bytes[min(max(0, o.known-c.Offset), int64(len(c.Bytes))):]
	if o.stopping {
		if o.late += int64(len(fresh)); o.late > lateMaxBytes {
			return nil
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	// A copy, because the reader reuses the bytes and a sink may retain its piece.
	if cause := o.sink.Output(c.Stream.String(), slices.Clone(fresh)); cause != "" && !o.stopping {
		return cause
	}
	return nil
}

// result returns the result of a command that ended by itself or by its own timeout.
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
	a.Note = o.note(e, a)
	r := tool.Success(a)
	r.ExitCode = &e.Code
	return r
}
