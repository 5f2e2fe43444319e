package host

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/config"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// List lists the calls of a session in the order of their claims.
func (e hostCalls) List(ctx context.Context, id perdure.SessionID) ([]perdure.Call, error) {
	return store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]perdure.Call, error) {
		if _, err := r.Sessions().Get(id); err != nil {
			return nil, err
		}
		return r.Calls().List(store.CallFilter{Session: id})
	})
}

// Resolve records an operator's resolution of a foreground call whose outcome is unknown.
func (e hostCalls) Resolve(ctx context.Context, key perdure.CallKey, word engine.Resolution) error {
	if word.Answer.Outcome() == "" {
		return fmt.Errorf("resolve %s: %w answer %q: it must be happened or did_not_happen",
			key, perdure.Invalid, word.Answer)
	}
	return e.effects.Calls().Resolve(ctx, key, taskrun.Resolution{
		Answer: word.Answer, Result: word.Result, By: word.By, Note: word.Note,
	})
}

func (e hostTools) List(context.Context) ([]engine.Tool, error) {
	var tools []engine.Tool
	for _, name := range e.cfg.Tools.Names() {
		if t, ok := e.cfg.Tools.Get(name); ok {
			described := describeTool(t, e.cfg.Timing)
			if e.cfg.Tools.Optional(name) {
				described.Capability = t.Spec().Hints.CapabilityID
			}
			tools = append(tools, described)
		}
	}
	return tools, nil
}

func describeTool(t tool.Tool, times config.Timing) engine.Tool {
	spec := t.Spec()
	_, background := t.(tool.Background)
	shown := engine.Tool{
		Name: spec.Name, DisplayName: spec.DisplayName, Description: spec.Description, Class: spec.Class,
		Background: background, NeedsEnv: spec.NeedsEnv, Policy: string(spec.Policy), SoftBudget: spec.SoftBudget,
		Deadline: spec.Deadline, Parameters: spec.Parameters,
	}
	shown.DisplayName = cmp.Or(shown.DisplayName, spec.Name)
	shown.Hints = hintsOf(spec)
	shown.Policy = cmp.Or(shown.Policy, string(tool.PolicyAuto))
	shown.SoftBudget = cmp.Or(times.SoftBudgets[spec.Name], shown.SoftBudget, times.SoftBudget)
	shown.Deadline = cmp.Or(shown.Deadline, times.Deadline)
	return shown
}

func hintsOf(spec tool.Spec) *engine.ToolHints {
	set := func(hint *bool) bool { return hint != nil && *hint }
	a, h := tool.AnnotationsOf(spec), spec.Hints
	return &engine.ToolHints{
		ReadOnly: a.ReadOnly, Destructive: a.Destructive, Idempotent: a.Idempotent, OpenWorld: a.OpenWorld,
		RequiresSecrets: set(h.RequiresSecrets), LongRunning: set(h.LongRunning), CPUBound: set(h.CPUBound),
		PersistOutput: set(h.PersistOutput), Payment: set(h.Payment),
	}
}

// Call runs a pure or idempotent tool once, outside any session, with the accounts of the acting
// user. Nothing is claimed, so a tool of class at_most_once is refused.
func (e hostTools) Call(ctx context.Context, name string, args json.RawMessage) (perdure.ToolResult, error) {
	t, ok := e.cfg.Tools.Get(name)
	if !ok {
		return perdure.ToolResult{}, fmt.Errorf("call tool %s: %w", name, perdure.NotFound)
	}
	spec := t.Spec()
	if !spec.Class.Repeatable() {
		return perdure.ToolResult{}, fmt.Errorf("call tool %s: %w: a tool of class %s runs only in a session, "+
			"where its calls are claimed", name, perdure.Invalid, spec.Class)
	}
	call := callerOf(ctx, tool.Call{ID: "call_outside", Execution: 1, Tool: name, Args: args, Class: spec.Class})
	result, err := e.runOutsideSession(ctx, call)
	if err != nil {
		return perdure.ToolResult{}, fmt.Errorf("call tool %s: %w", name, err)
	}
	record, err := result.Record(call.ID)
	if err != nil {
		e.cfg.Log.Error("tool failed internally", "tool", name, "error", tool.Chain(err))
	}
	return record, nil
}

// runOutsideSession validates and runs a call without a session.
func (e hostTools) runOutsideSession(ctx context.Context, call tool.Call) (result tool.Result, err error) {
	if fault := e.cfg.Tools.Validate(call.Tool, call.Args); fault != nil {
		return *fault, nil
	}
	var by tool.Executor = e.cfg.Tools
	if e.cfg.Ports.Executor != nil {
		by = e.cfg.Ports.Executor
	}
	ports, mask := accountPorts(ctx, e.Host)
	env := tool.Env{Call: call, Registry: e.cfg.Tools, Egress: e.cfg.Ports.Egress, Ports: ports, Trace: telemetry.TraceParent(ctx)}
	result = e.cfg.Tools.Protect(call, func() (r tool.Result) {
		r, err = by.Execute(ctx, call, env)
		return r
	})
	return mask.Result(result), err
}
