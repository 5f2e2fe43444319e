package effect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/veil"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// plan says of each call what its tool says of it, and refuses those that may not start: unknown name,
// wrong arguments, a hook or a policy that says no (TN10). It prepares the tickets of commands that
// outlive us, so that they stand before the claim (RC20).
func (e *Effects) plan(ctx context.Context, s *perdure.Session, calls []perdure.ToolCall) perdure.ActStarted {
	var act perdure.ActStarted
	for i, call := range calls {
		if i >= perdure.MaxCallsPerStep { // never starts (TN9)
			act.Calls = append(act.Calls, perdure.PlannedCall{ID: call.ID, Name: call.Name})
			continue
		}
		act.Calls = append(act.Calls, e.planCall(ctx, s, call, false))
	}
	return act
}

// planCall plans one call. Its arguments are those that the model wrote, or that a person put in their place: then it is
// planned again.
func (e *Effects) planCall(ctx context.Context, s *perdure.Session, call perdure.ToolCall, again bool) perdure.PlannedCall {
	planned := perdure.PlannedCall{ID: call.ID, Name: call.Name}
	t, known := e.lookup(s.Agent, leftTurn(s), call.Name)
	if !known {
		planned.Refusal = refusal(call.ID, perdure.ErrorRejected, "Tool definition not found: "+call.Name)
		return planned
	}
	spec := t.Spec()
	planned.DisplayName, planned.Class, planned.Concurrency = spec.DisplayName, spec.Class, spec.Concurrency
	args, repeats := repeatsOf(call.Arguments)
	planned.Repeats = repeats
	seen := tool.Call{Session: s.ID, ID: call.ID, Tool: call.Name, Args: args, Class: spec.Class, Execution: 1}
	if s.Turn != nil {
		seen.Turn = s.Turn.ID
	}
	planned.Narration = tool.Narrate(t, seen, tool.PhaseStarted, s.Agent.Locale)
	if fault := e.fault(t, seen); fault != nil {
		fault.ErrorAs, fault.Refused = perdure.ErrorRejected, true
		return refusedBy(planned, *fault)
	}
	j := e.judge(ctx, s.Agent, t, seen, s.ReadUntrusted())
	if j.refusal != nil {
		return refusedBy(planned, *j.refusal)
	}
	if string(j.args) != string(call.Arguments) {
		seen.Args, _ = e.taken(perdure.CallKey{Session: s.ID, Call: call.ID}, t, j.args)
		planned.Rewritten = seen.Args
	}
	if spec.Policy == tool.PolicyClientSide && veil.Stands(seen.Args) { // the client would be asked with the mark
		return refusedBy(planned, veil.Lost())
	}
	planned.Permissions, planned.Expires = j.permissions, e.cfg.ApprovalExpiry
	if planned.Refusal = e.refuse(s, t, call); planned.Refusal != nil {
		return planned
	}
	switch {
	case s.Agent.DryRun: // what runs then runs in the foreground and leaves nothing behind (AP13)
	case spec.Policy == tool.PolicyClientSide:
		planned.ClientSide, planned.Deadline = true, spec.Deadline
	default:
		routing := dispatch.RouteCall(false, e.route(seen), e.budgetOf(s.Agent, spec))
		planned.Soft, planned.Wake = routing.Soft, routing.Wake
		if routing.Lane == perdure.Background {
			planned.Lane = perdure.Background
		}
	}
	if planned.Refusal = e.withholdPlanned(ctx, s, planned, seen.Args); planned.Refusal != nil {
		return planned
	}
	if !again && (len(planned.Permissions) == 0 || planned.Lane == perdure.Background) { // else it goes out once it is approved
		if held := e.held(ctx, s.ID, s.Agent, t); held != nil {
			return refusedBy(planned, *held)
		}
	}
	planned.Fingerprint, planned.Refusal = e.prepare(ctx, s, t, seen)
	return planned
}

// held is the result of a call that may not go out now, since there were too many; nil: it may, or it does not go out. What may
// is counted (RL1).
func (e *Effects) held(ctx context.Context, id perdure.SessionID, agent perdure.Agent, t tool.Tool) *tool.Result {
	if e.cfg.Outbound == nil || agent.DryRun || !tool.GoesOut(t) || e.cfg.Outbound.CheckOrg(ctx, e.orgOf(ctx, id)) {
		return nil
	}
	r := tool.Error(textHeld)
	r.ErrorAs, r.Refused = perdure.ErrorRejected, true
	return &r
}

// orgOf is the org whose calls those of a session are counted with. Where that cannot be read, they count with everybody's.
func (e *Effects) orgOf(ctx context.Context, id perdure.SessionID) string {
	org := e.cfg.Org
	err := e.cfg.Store.View(ctx, func(r store.Reader) error {
		row, err := r.Session(id)
		org = cmp.Or(row.Org, e.cfg.Org)
		return err
	})
	if err != nil {
		return e.cfg.Org
	}
	return org
}

// textHeld is the result of a call that the rate limit holds back (RL1).
const textHeld = "Rate limit exceeded: too many calls went out in the last minute. This one did not. Wait a minute before you try again."

func refusedBy(planned perdure.PlannedCall, r tool.Result) perdure.PlannedCall {
	record, _ := r.Record(planned.ID) // a refusal's text is a tool error's
	record.NeverStarted = true
	planned.Refusal = &record
	return planned
}

// refuse returns the result of a call that may not start, or nil.
func (e *Effects) refuse(s *perdure.Session, t tool.Tool, call perdure.ToolCall) *perdure.ToolResult {
	spec := t.Spec()
	switch {
	case s.Agent.DryRun && spec.Class != perdure.Pure && !spec.DryAware:
		text, _ := json.Marshal(fmt.Sprintf("[dry-run] Would call %s.", call.Name))
		return &perdure.ToolResult{CallID: call.ID, Result: text, NeverStarted: true}
	case spec.Policy == tool.PolicyClientSide && !s.Agent.ClientTools:
		return refusal(call.ID, perdure.ErrorDenied, fmt.Sprintf("%s is answered by the client, and this client does not answer tools", call.Name))
	}
	return nil
}

// fault checks the arguments with what is secret of them, and says what is wrong without it. What is lost of them is not
// checked: the call is answered with that.
func (e *Effects) fault(t tool.Tool, call tool.Call) *tool.Result {
	schema := t.Spec().Parameters
	whole, _ := e.vault.Fill(perdure.CallKey{Session: call.Session, Call: call.ID}, schema, call.Args)
	if veil.Gone(schema, whole) != nil {
		return nil
	}
	r := e.checkArgs(t, call, whole)
	if r == nil {
		return nil
	}
	call.Args, _ = veil.WithoutJSON(e.known(call.Session), call.Args) // a hook's may be whole
	if !veil.Stands(call.Args) {
		r.Text = veil.Fault(schema, whole, r.Text)
		return r
	}
	r.Text = veil.UnfitKnown // a text may tell a part of a secret: it is one about what is recorded
	if told := e.checkArgs(t, call, call.Args); told != nil {
		r.Text = veil.Fault(schema, call.Args, told.Text)
	}
	return r
}

// checkArgs checks the whole arguments of a call, unless the tool words its faults itself (TL22). Text that was no JSON
// stands as a string in the message, and is checked as it came.
func (e *Effects) checkArgs(t tool.Tool, call tool.Call, whole json.RawMessage) *tool.Result {
	var raw string
	if perdure.DecodeJSON(whole, &raw) == nil && raw != "" {
		return e.validate(call.Tool, json.RawMessage(raw))
	}
	own, ok := t.(tool.SelfValidating)
	if !ok || !own.ValidatesItself() {
		return e.validate(call.Tool, whole)
	}
	if bytes.Equal(whole, call.Args) {
		return nil
	}
	if _, err := perdure.CanonicalJSON(whole); err != nil { // else the fingerprint would say so, which sees the mark only
		return e.validate(call.Tool, whole)
	}
	return nil
}

// prepare computes the fingerprint and makes the ticket of a supervised run.
func (e *Effects) prepare(ctx context.Context, s *perdure.Session, t tool.Tool, call tool.Call) (string, *perdure.ToolResult) {
	print, err := perdure.Fingerprint(call.Tool, call.Args)
	if err != nil {
		return "", refusal(call.ID, perdure.ErrorRejected, fmt.Sprintf("Invalid arguments for %s: %s", call.Tool, strings.TrimPrefix(err.Error(), "fingerprint "+call.Tool+": ")))
	}
	survivor, ok := t.(tool.Survivor)
	if !ok {
		return print, nil
	}
	key := perdure.CallKey{Session: s.ID, Call: call.ID}
	ticket := tool.Call{Session: s.ID, ID: call.ID, Execution: 1, Tool: call.Tool, Key: key.IdempotencyKey()}
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
