package dispatch

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// aliveKey is the context key of the function that receives the signs of life of a call.
type aliveKey struct{}

// Sink returns the sink of the call whose execution has this ctx. Every report through it,
// heartbeats included, restarts the stall clock of the call (tool.Spec.Stall) and is passed on to
// the host's sink, which may be nil. Once ctx has ended, each method returns the cause. Outside an
// execution of an Async the sink only passes reports on. ForRegistry wraps tool.Env.Sink in it; a
// custom Execute has to call it itself. Safe for concurrent use if the host's sink is.
func Sink(ctx context.Context, to tool.Sink) tool.Sink {
	alive, ok := ctx.Value(aliveKey{}).(func())
	if !ok {
		alive = func() {}
	}
	return sink{ctx: ctx, alive: alive, to: tool.Env{Sink: to}.Report()}
}

// sink reports signs of life of a call. It is only used during the execution of ctx.
type sink struct {
	ctx   context.Context
	alive func()
	to    tool.Sink
}

var _ tool.Skipper = sink{}

// reportAlive reports a sign of life and returns why the work should end, if it should.
func (s sink) reportAlive(cause perdure.Cause) perdure.Cause {
	s.alive()
	if cause == "" {
		cause = perdure.CauseOf(s.ctx)
	}
	return cause
}

// Status passes on a status line.
func (s sink) Status(text string) perdure.Cause { return s.reportAlive(s.to.Status(text)) }

// Progress passes on progress.
func (s sink) Progress(current, total float64, label string) perdure.Cause {
	return s.reportAlive(s.to.Progress(current, total, label))
}

// ReportProgress passes on progress.
func (s sink) ReportProgress(p perdure.Progress) perdure.Cause {
	return s.reportAlive(tool.ReportProgress(s.to, p))
}

// Output passes on output.
func (s sink) Output(stream string, delta []byte) perdure.Cause {
	return s.reportAlive(s.to.Output(stream, delta))
}

// Artifact passes on an artifact.
func (s sink) Artifact(a perdure.Artifact) perdure.Cause { return s.reportAlive(s.to.Artifact(a)) }

// Heartbeat is only a sign of life.
func (s sink) Heartbeat() perdure.Cause { return s.reportAlive(s.to.Heartbeat()) }

// Skip passes on that output is missing.
func (s sink) Skip(n int64) perdure.Cause {
	if skipper, ok := s.to.(tool.Skipper); ok {
		return s.reportAlive(skipper.Skip(n))
	}
	return s.reportAlive("")
}
