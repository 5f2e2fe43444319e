package tool

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/perdure/perdure"
)

// UnknownTool is the error of a call to a tool that does not exist. errors.Is matches
// perdure.NotFound.
type UnknownTool struct{ Text string }

// Error returns the text: "Tool not found: x", or "Tool definition not found: x" from a batch.
func (e *UnknownTool) Error() string { return e.Text }

// Is reports whether target is perdure.NotFound.
func (e *UnknownTool) Is(target error) bool { return target == perdure.NotFound }

// Execute runs a call in the foreground. It does not check the arguments: the runtime calls
// [Registry.Validate] before the claim. A tool that needs a session and has none returns a tool
// error, and a panic becomes an internal error.
//
// The only possible error is *Unknown. env.Call is set from call. A session that only env names is
// used for both.
func (r *Registry) Execute(ctx context.Context, call Call, env Env) (Result, error) {
	e, ok := r.entry(call.Tool)
	if !ok {
		return Result{}, &UnknownTool{"Tool not found: " + call.Tool}
	}
	call.Session = cmp.Or(call.Session, env.Call.Session)
	env.Call = call
	if e.spec.NeedsEnv && call.Session == "" {
		return Failf("%s requires context. This tool must be executed with session context.", call.Tool), nil
	}
	return r.Protect(call, func() Result { return e.tool.Run(ctx, call, env) }), nil
}

// Protect runs work of a call. A panic becomes an internal error of kind panic, and its stack goes
// to the log with the ids of the call. Code that enters a tool without Execute must use Protect.
func (r *Registry) Protect(call Call, work func() Result) (result Result) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		err := fmt.Errorf("panic: %v", v)
		r.logger().Error("tool panicked", "tool", call.Tool, "session", call.Session, "call", call.ID,
			"error", err, "stack", string(debug.Stack()))
		result = Result{Kind: KindInternal, Err: err, ErrorKind: perdure.ErrorPanic}
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

// ExecuteAll checks and runs calls one after another and returns the results in the order of the
// calls. If one of the tools does not exist, nothing runs and the error is *Unknown. If ctx ends it
// stops and returns the cause.
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

// ExecuteParallel is ExecuteAll with at most perdure.DefaultParallelCalls calls at once. Calls of
// the same concurrency class run one after another, in their order. It waits for all calls that it
// started.
func (r *Registry) ExecuteParallel(ctx context.Context, calls []Call, env Env) ([]Result, error) {
	tools, err := r.forBatch(calls)
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(calls))
	errs := make([]error, len(calls))
	slots := make(chan struct{}, perdure.DefaultParallelCalls) // one element for each running call
	var running sync.WaitGroup
	for _, group := range tools.serialGroups(calls) {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			for _, i := range group {
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

// forBatch returns a snapshot that has all tools of the calls.
func (r *Registry) forBatch(calls []Call) (*Registry, error) {
	tools := r.Snapshot()
	for _, call := range calls {
		if !tools.Has(call.Tool) {
			return nil, &UnknownTool{"Tool definition not found: " + call.Tool}
		}
	}
	return tools, nil
}

// serialGroups groups the calls, by index, that must run one after another.
func (r *Registry) serialGroups(calls []Call) [][]int {
	var groups [][]int
	byClass := map[string]int{}
	for i, call := range calls {
		e, _ := r.entry(call.Tool)
		class := e.spec.Concurrency
		group, known := byClass[class]
		if class == "" || !known {
			byClass[class] = len(groups)
			groups = append(groups, []int{i})
			continue
		}
		groups[group] = append(groups[group], i)
	}
	return groups
}

// checked validates and runs a call of a batch, unless ctx has ended.
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
