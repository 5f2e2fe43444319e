package dispatch

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// aliveKey is the key of the function that a call's signs of life go to, in the context of its execution.
type aliveKey struct{}

// Sink returns the sink of the call whose execution has this ctx: everything that is reported through it starts the stall clock
// of the call anew (tool.Spec.Stall), heartbeats included, and is handed on to a sink of the host, which may be nil. Each method
// answers why the work should end, as soon as ctx has ended. Outside an execution of an Async it only hands on. ForRegistry
// wraps tool.Env.Sink in it; an Execute of one's own calls it. Safe for concurrent use, if the sink of the host is.
func Sink(ctx context.Context, to tool.Sink) tool.Sink {
	alive, ok := ctx.Value(aliveKey{}).(func())
	if !ok {
		alive = func() {}
	}
	return sink{ctx: ctx, alive: alive, to: tool.Env{Sink: to}.Report()}
}

// sink is a sink that shows that its call is alive. It lives as long as the execution of ctx.
type sink struct {
	ctx   context.Context
	alive func()
	to    tool.Sink
}

var _ tool.Skipper = sink{}

// said notes a sign of life, and answers for the call and for the sink of the host.
func (s sink) said(cause perdure.Cause) perdure.Cause {
	s.alive()
	if cause == "" {
		cause = perdure.CauseOf(s.ctx)
	}
	return cause
}

// Status hands on a line.
func (s sink) Status(text string) perdure.Cause { return s.said(s.to.Status(text)) }

// Progress hands on how far the work is.
func (s sink) Progress(current, total float64, label string) perdure.Cause {
	return s.said(s.to.Progress(current, total, label))
}

// Output hands on a piece of output.
func (s sink) Output(stream string, delta []byte) perdure.Cause {
	return s.said(s.to.Output(stream, delta))
}

// Artifact hands on what the work leaves behind.
func (s sink) Artifact(a perdure.Artifact) perdure.Cause { return s.said(s.to.Artifact(a)) }

// Heartbeat is a sign of life and nothing else.
func (s sink) Heartbeat() perdure.Cause { return s.said(s.to.Heartbeat()) }

// Skip hands on that output is missing.
func (s sink) Skip(n int64) perdure.Cause {
	if skipper, ok := s.to.(tool.Skipper); ok {
		return s.said(skipper.Skip(n))
	}
	return s.said("")
}
