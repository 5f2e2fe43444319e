package effect

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// plan says of each call what its tool says of it, and refuses those that may not start: unknown name,
// wrong arguments, a policy that nobody here can satisfy (TN10). It prepares the tickets of commands that
// outlive us, so that they stand before the claim (RC20).
func (e *Effects) plan(ctx context.Context, s *perdure.Session, calls []perdure.ToolCall) perdure.ActStarted {
	var act perdure.ActStarted
	for i, call := range calls {
		planned := perdure.PlannedCall{ID: call.ID, Name: call.Name}
		t, known := e.lookup(s.Agent, call.Name)
		if !known {
			planned.Refusal = refusal(call.ID, perdure.ErrorRejected, "Tool definition not found: "+call.Name)
			act.Calls = append(act.Calls, planned)
			continue
		}
		spec := t.Spec()
		planned.DisplayName, planned.Class, planned.Concurrency = spec.DisplayName, spec.Class, spec.Concurrency
		planned.Narration = tool.Narrate(t, tool.Call{Session: s.ID, ID: call.ID, Tool: call.Name, Args: call.Arguments}, tool.PhaseStarted, s.Agent.Locale)
		planned.Refusal = e.refuse(s, t, call)
		if planned.Refusal == nil && i < perdure.MaxCallsPerStep { // the others never start (TN9)
			planned.Fingerprint, planned.Refusal = e.prepare(ctx, s, t, call)
		}
		act.Calls = append(act.Calls, planned)
	}
	return act
}

// refuse returns the result of a call that may not start, or nil.
func (e *Effects) refuse(s *perdure.Session, t tool.Tool, call perdure.ToolCall) *perdure.ToolResult {
	spec := t.Spec()
	if fault := e.fault(t, call); fault != nil {
		record, _ := fault.Record(call.ID)
		record.NeverStarted, record.ErrorKind = true, perdure.ErrorRejected
		return &record
	}
	switch {
	case spec.Policy == tool.PolicyRequiresApproval || spec.Policy == tool.PolicyClientSide:
		return refusal(call.ID, perdure.ErrorDenied, fmt.Sprintf("%s needs an approval, and nobody can give one here", call.Name))
	case s.Agent.DryRun && spec.Class != perdure.Pure && !spec.DryAware:
		text, _ := json.Marshal(fmt.Sprintf("[dry-run] Would call %s.", call.Name))
		return &perdure.ToolResult{CallID: call.ID, Result: text, NeverStarted: true}
	}
	return nil
}

// fault checks the arguments, unless the tool words its faults itself (TL22). Text that was no JSON stands as a
// string in the message, and is checked as it came.
func (e *Effects) fault(t tool.Tool, call perdure.ToolCall) *tool.Result {
	var raw string
	if perdure.DecodeJSON(call.Arguments, &raw) == nil && raw != "" {
		return e.cfg.Tools.Validate(call.Name, json.RawMessage(raw))
	}
	if own, ok := t.(tool.SelfValidating); ok && own.ValidatesItself() {
		return nil
	}
	return e.cfg.Tools.Validate(call.Name, call.Arguments)
}

// prepare computes the fingerprint and makes the ticket of a supervised run.
func (e *Effects) prepare(ctx context.Context, s *perdure.Session, t tool.Tool, call perdure.ToolCall) (string, *perdure.ToolResult) {
	print, err := perdure.Fingerprint(call.Name, call.Arguments)
	if err != nil {
		return "", refusal(call.ID, perdure.ErrorRejected, fmt.Sprintf("Invalid arguments for %s: %s", call.Name, strings.TrimPrefix(err.Error(), "fingerprint "+call.Name+": ")))
	}
	survivor, ok := t.(tool.Survivor)
	if !ok {
		return print, nil
	}
	key := perdure.CallKey{Session: s.ID, Call: call.ID}
	ticket := tool.Call{Session: s.ID, ID: call.ID, Execution: 1, Tool: call.Name, Key: key.IdempotencyKey()}
	if err := e.guarded("prepare", func() error { return survivor.Prepare(ctx, ticket) }); err != nil {
		e.cfg.Log.Error("a run cannot be prepared", "call", key, "error", tool.Chain(err))
		return "", refusal(call.ID, perdure.ErrorInternal, perdure.GenericToolError)
	}
	return print, nil
}

func refusal(id perdure.CallID, kind perdure.ErrorKind, text string) *perdure.ToolResult {
	r := perdure.Refused(id, kind, text)
	return &r
}
