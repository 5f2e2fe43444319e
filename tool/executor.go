package tool

import (
	"context"
	"errors"
)

// Executor carries out calls whose arguments were checked. A [Registry] is one: it enters the tool
// in this process. A host puts its own in place to carry out calls elsewhere, or to do something
// around each of them. Safe for concurrent use.
//
// Whatever the executor does, the engine claims the call before and settles it after, and the
// effect class of the tool decides what happens after a crash. So an executor must do for a call
// what the tool's class promises, with call.Key as the key of the effect.
type Executor interface {
	// Execute carries out one call and returns its result. ctx ends as for [Tool]. An error is an
	// internal error of the call, except *UnknownTool, whose text the model reads.
	Execute(ctx context.Context, call Call, env Env) (Result, error)
}

// BackgroundExecutor is an Executor that also carries out background runs. The runs of any other
// executor are carried out by the tool itself.
type BackgroundExecutor interface {
	Executor
	// ExecuteBackground carries out one attempt of a task. Everything reported through sink is
	// durable.
	ExecuteBackground(ctx context.Context, call Call, env Env, sink Sink) (Result, error)
}

var _ Executor = (*Registry)(nil)

// ResultOf returns the outcome of an executor as one result.
func ResultOf(result Result, err error) Result {
	if err == nil {
		return result
	}
	var unknown *UnknownTool
	if errors.As(err, &unknown) {
		return Error(unknown.Text)
	}
	return Internal(err)
}
