package tool

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/perdure/perdure"
)

// Unknown is the error of a call whose tool is not there (TL20). errors.Is tells perdure.NotFound.
type Unknown struct{ Text string }

// Error returns the text: "Tool not found: x", or "Tool definition not found: x" from a batch.
func (e *Unknown) Error() string { return e.Text }

// Is reports whether target is perdure.NotFound.
func (e *Unknown) Is(target error) bool { return target == perdure.NotFound }

// Execute runs a call in the foreground. The arguments are not checked here: the runtime does so with
// [Registry.Validate] before it claims (TL22). A tool that needs a session and has none answers with TL6's
// text, and a panic is an internal error.
//
// The only error is *Unknown. env.Call is set from call; a session that only env names counts for both.
func (r *Registry) Execute(ctx context.Context, call Call, env Env) (Result, error) {
	e, ok := r.entry(call.Tool)
	if !ok {
		return Result{}, &Unknown{"Tool not found: " + call.Tool}
	}
	if call.Session == "" {
		call.Session = env.Call.Session
	}
	env.Call = call
	if e.spec.NeedsEnv && call.Session == "" {
		return Failf("%s requires context. This tool must be executed with session context.", call.Tool), nil
	}
	return r.Protect(call, func() Result { return e.tool.Run(ctx, call, env) }), nil
}

// Protect runs work of a call. A panic becomes an internal error of kind panic, and its stack goes to the
// log with the ids of the call (TL5). Whoever enters a tool by another door than Execute uses it there.
func (r *Registry) Protect(call Call, work func() Result) (result Result) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		err := fmt.Errorf("panic: %v", v)
		r.logger().Error("tool panicked", "tool", call.Tool, "session", call.Session, "call", call.ID,
			"error", err, "stack", string(debug.Stack()))
		result = Result{Kind: KindInternal, Err: err, ErrorAs: perdure.ErrorPanic}
	}()
	return work()
}

func (r *Registry) logger() *slog.Logger {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.log == nil {
		return slog.Default()
	}
	return r.log
}

// ExecuteAll checks and runs calls one after another and returns their results in the order of the calls
// (TL21). Nothing runs when one of them has no tool: the error is *Unknown. It stops early, with the cause,
// when ctx ends.
func (r *Registry) ExecuteAll(ctx context.Context, calls []Call, env Env) ([]Result, error) {
	tools, err := r.forBatch(calls)
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(calls))
	for i, call := range calls {
		if results[i], err = tools.checked(ctx, call, env); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// ExecuteParallel is ExecuteAll at once, at most perdure.DefaultParallelCalls at a time. Calls of one
// concurrency class run one after another, in their order (TN11). It waits for all that it started.
func (r *Registry) ExecuteParallel(ctx context.Context, calls []Call, env Env) ([]Result, error) {
	tools, err := r.forBatch(calls)
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(calls))
	errs := make([]error, len(calls))
	places := make(chan struct{}, perdure.DefaultParallelCalls) // one element is one call that runs
	var running sync.WaitGroup
	for _, lane := range tools.lanes(calls) {
		running.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			for _, i := range lane {
				results[i], errs[i] = tools.checked(ctx, calls[i], env)
			}
		})
	}
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

// forBatch returns a snapshot that has a tool for every call.
func (r *Registry) forBatch(calls []Call) (*Registry, error) {
	tools := r.Snapshot()
	for _, call := range calls {
		if !tools.Has(call.Tool) {
			return nil, &Unknown{"Tool definition not found: " + call.Tool}
		}
	}
	return tools, nil
}

// lanes groups the calls, by index, that must run one after another.
func (r *Registry) lanes(calls []Call) [][]int {
	var lanes [][]int
	byClass := map[string]int{}
	for i, call := range calls {
		e, _ := r.entry(call.Tool)
		class := e.spec.Concurrency
		lane, known := byClass[class]
		if class == "" || !known {
			byClass[class] = len(lanes)
			lanes = append(lanes, []int{i})
			continue
		}
		lanes[lane] = append(lanes[lane], i)
	}
	return lanes
}

// checked runs one call of a batch, unless ctx has ended.
func (r *Registry) checked(ctx context.Context, call Call, env Env) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	t, _ := r.Get(call.Tool)
	own, ok := t.(SelfValidating)
	if !ok || !own.ValidatesItself() {
		if refused := r.Validate(call.Tool, call.Args); refused != nil {
			return *refused, nil
		}
	}
	return r.Execute(ctx, call, env)
}
