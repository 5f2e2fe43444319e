package admission

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/internal/strictjson"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Plan decides for each call of a response how it runs, and refuses the calls that must not start:
// an unknown name, invalid arguments, or a refusal by a hook or policy. It also prepares the start
// tickets of supervised commands, so that they exist before the claim.
func (a *Admission) Plan(ctx context.Context, s *perdure.Session, calls []perdure.ToolCall) perdure.ActStarted {
	var act perdure.ActStarted
	for i, call := range calls {
		if i >= perdure.MaxCallsPerStep { // over the limit: it never starts
			act.Calls = append(act.Calls, perdure.PlannedCall{ID: call.ID, Name: call.Name})
			continue
		}
		act.Calls = append(act.Calls, a.planCall(ctx, s, call, false))
	}
	return act
}

// planCall plans one call. again is set if a person replaced the arguments and the call is planned
// again.
func (a *Admission) planCall(ctx context.Context, s *perdure.Session, call perdure.ToolCall,
	again bool) perdure.PlannedCall {
	planned := perdure.PlannedCall{ID: call.ID, Name: call.Name}
	t, known := a.toolset.Lookup(s.Agent, core.HasDetachedWork(s), call.Name)
	if !known {
		planned.Refusal = refusal(call.ID, perdure.ErrorRejected, "Tool definition not found: "+call.Name)
		return planned
	}
	spec := t.Spec()
	planned.DisplayName, planned.Class, planned.Concurrency = spec.DisplayName, spec.Class, spec.Concurrency
	args, repeats := takeRepeatArgument(call.Arguments)
	planned.RepeatOf = repeats
	seen := a.callerOf(ctx, s).Calls(tool.Call{Session: s.ID, ID: call.ID, Tool: call.Name, Args: args, Class: spec.Class,
		Execution: 1})
	if s.Turn != nil {
		seen.Turn = s.Turn.ID
	}
	planned.Narration = tool.Narrate(t, seen, tool.PhaseStarted, seen.For.Locale)
	if fault := a.ArgumentFault(t, seen); fault != nil {
		fault.ErrorKind, fault.Refused = perdure.ErrorRejected, true
		return refusedBy(planned, *fault)
	}
	j := a.Judge(ctx, s.Agent, t, seen, s.ReadUntrusted())
	if j.Refusal != nil {
		return refusedBy(planned, *j.Refusal)
	}
	if string(j.Args) != string(call.Arguments) {
		seen.Args, _ = a.secrets.Extract(perdure.CallKey{Session: s.ID, Call: call.ID}, t, j.Args)
		planned.Rewritten = seen.Args
	}
	if spec.Policy == tool.PolicyClientSide && secretargs.HasKnownMark(seen.Args) {
		// the client would get a mark instead of the secret
		return refusedBy(planned, secretargs.LostResult())
	}
	planned.Permissions, planned.ApprovalTimeout = j.Permissions, a.core.ApprovalExpiry(s.Agent)
	if planned.Refusal = a.refuse(s, t, call); planned.Refusal != nil {
		return planned
	}
	switch {
	case s.Agent.DryRun: // a dry run stays in the foreground and leaves nothing behind
	case spec.Policy == tool.PolicyClientSide:
		planned.ClientSide, planned.AnswerTimeout = true, spec.Deadline
	default:
		routing := dispatch.RouteCall(false, a.route(seen), a.softBudgetOf(s.Agent, spec))
		planned.SoftBudget, planned.Wake = routing.Soft, routing.Wake
		if routing.Lane == perdure.Background {
			planned.Lane = perdure.Background
		}
	}
	if planned.Refusal = a.withholdPlanned(ctx, s, planned, seen.Args); planned.Refusal != nil {
		return planned
	}
	if !again && (len(planned.Permissions) == 0 || planned.Lane == perdure.Background) {
		// otherwise the call is counted once it is approved
		if held := a.RateLimited(ctx, s.ID, s.Agent, t); held != nil {
			return refusedBy(planned, *held)
		}
	}
	planned.Fingerprint, planned.Refusal = a.prepare(ctx, s, t, seen)
	return planned
}

// callerOf is for whom the calls of a session are made. Organisation and user are in the session's
// row, which is read only if hooks or policies of the host see the call. If it cannot be read, they
// are empty.
func (a *Admission) callerOf(ctx context.Context, s *perdure.Session) *core.Owner {
	owner := core.CallerOf(s)
	if p := &a.core.Policies; len(p.Hooks) == 0 && p.Permit == nil && p.Route == nil {
		return owner
	}
	row, err := a.core.SessionRow(ctx, s.ID)
	if err == nil {
		owner.Org, owner.User = row.Org, row.User
	}
	return owner
}

// JudgeCall judges a call again whose arguments were replaced by a person: hooks, policy,
// fingerprint. Permissions that the person granted with the new arguments are not asked for again.
func (a *Admission) JudgeCall(ctx context.Context, s *perdure.Session, c perdure.ReplanCall) core.Outcome {
	planned := a.planCall(ctx, s, perdure.ToolCall{ID: c.Call.ID, Name: c.Call.Name, Arguments: c.Call.Args}, true)
	planned.RepeatOf = cmp.Or(planned.RepeatOf, c.Call.RepeatOf)
	if planned.Rewritten == nil {
		planned.Rewritten = c.Call.Args
	}
	var missing []perdure.Permission
	for _, p := range planned.Permissions {
		if !c.Call.Allowed(p) {
			missing = append(missing, p)
		}
	}
	planned.Permissions = missing
	fact := perdure.CallReplanned{Call: planned}
	return core.Outcome{Events: []perdure.Event{{Session: s.ID, Actor: "runtime", Turn: c.Turn, Call: c.Call.ID,
		Fact: fact}}}
}

// RateLimited returns the result of a call that the outbound rate limit refuses; nil: the call is
// allowed, or does not leave the deployment. An allowed call is counted.
func (a *Admission) RateLimited(ctx context.Context, id perdure.SessionID, agent perdure.Agent, t tool.Tool) *tool.Result {
	if a.core.Outbound == nil || agent.DryRun || !tool.IsOutgoing(t) || a.core.Outbound.CheckOrg(ctx, a.orgOf(ctx, id)) {
		return nil
	}
	r := tool.Error(textRateLimited)
	r.ErrorKind, r.Refused = perdure.ErrorRejected, true
	return &r
}

// orgOf returns the organisation with which a session's calls are counted. If it cannot be read,
// they are counted with the calls of the whole deployment.
func (a *Admission) orgOf(ctx context.Context, id perdure.SessionID) string {
	org := a.core.Org
	err := a.core.Store.View(ctx, func(r store.Reader) error {
		row, err := r.Sessions().Get(id)
		org = cmp.Or(row.Org, a.core.Org)
		return err
	})
	if err != nil {
		return a.core.Org
	}
	return org
}

// textRateLimited is the result of a call that the rate limit refuses.
const textRateLimited = "Rate limit exceeded: too many outbound calls in the last minute. This call was not made. Wait a " +
	"minute before you try again."

func refusedBy(planned perdure.PlannedCall, r tool.Result) perdure.PlannedCall {
	record, _ := r.Record(planned.ID) // the text of a refusal is a tool error's
	record.NeverStarted = true
	planned.Refusal = &record
	return planned
}

// refuse returns the result of a call that must not start, or nil.
func (a *Admission) refuse(s *perdure.Session, t tool.Tool, call perdure.ToolCall) *perdure.ToolResult {
	spec := t.Spec()
	switch {
	case s.Agent.DryRun && spec.Class != perdure.Pure && !spec.HandlesDryRun:
		text, _ := json.Marshal(fmt.Sprintf("[dry-run] Would call %s.", call.Name))
		return &perdure.ToolResult{CallID: call.ID, Result: text, NeverStarted: true}
	case spec.Policy == tool.PolicyClientSide && !s.Agent.ClientTools:
		return refusal(call.ID, perdure.ErrorDenied,
			fmt.Sprintf("%s must be run by the client, and this client does not run tools", call.Name))
	}
	return nil
}

// ArgumentFault checks the arguments of a call with their secrets filled in, and returns the error
// without them. If a secret is lost, the arguments are not checked: the call gets that error
// instead.
func (a *Admission) ArgumentFault(t tool.Tool, call tool.Call) *tool.Result {
	schema := t.Spec().Parameters
	full, _ := a.secrets.Vault.Fill(perdure.CallKey{Session: call.Session, Call: call.ID}, schema, call.Args)
	if secretargs.CheckLost(schema, full) != nil {
		return nil
	}
	r := a.checkArgs(t, call, full)
	if r == nil {
		return nil
	}
	// a hook may have added secret values
	call.Args, _ = secretargs.MaskKnownJSON(a.secrets.Known(call.Session), call.Args)
	if !secretargs.HasKnownMark(call.Args) {
		r.Text = secretargs.SafeFault(schema, full, r.Text)
		return r
	}
	// an error text may reveal part of a secret, so the check is repeated on the masked arguments
	r.Text = secretargs.UnusableKnown
	if masked := a.checkArgs(t, call, call.Args); masked != nil {
		r.Text = secretargs.SafeFault(schema, call.Args, masked.Text)
	}
	return r
}

// checkArgs checks the full arguments of a call, unless the tool validates them itself. Arguments
// that were not valid JSON are recorded as a string, and are checked as the model wrote them.
func (a *Admission) checkArgs(t tool.Tool, call tool.Call, full json.RawMessage) *tool.Result {
	var raw string
	if perdure.DecodeJSON(full, &raw) == nil && raw != "" {
		return a.toolset.Validate(call.Tool, json.RawMessage(raw))
	}
	own, ok := t.(tool.SelfValidating)
	if !ok || !own.ValidatesItself() {
		return a.toolset.Validate(call.Tool, full)
	}
	if bytes.Equal(full, call.Args) {
		return nil
	}
	if _, err := strictjson.Canonical(full); err != nil { // the fingerprint would not report it: it sees the mask only
		return a.toolset.Validate(call.Tool, full)
	}
	return nil
}

// prepare computes the fingerprint of a call and makes its start ticket, if it is supervised.
func (a *Admission) prepare(ctx context.Context, s *perdure.Session, t tool.Tool,
	call tool.Call) (string, *perdure.ToolResult) {
	print, err := perdure.Fingerprint(call.Tool, call.Args)
	if err != nil {
		return "", refusal(call.ID, perdure.ErrorRejected,
			fmt.Sprintf("Invalid arguments for %s: %s", call.Tool,
				strings.TrimPrefix(err.Error(), "fingerprint "+call.Tool+": ")))
	}
	survivor, ok := t.(tool.Adoptable)
	if !ok {
		return print, nil
	}
	key := perdure.CallKey{Session: s.ID, Call: call.ID}
	ticket := tool.Call{Session: s.ID, ID: call.ID, Execution: 1, Tool: call.Tool, Key: key.IdempotencyKey()}
	if err := a.core.Guarded("prepare", func() error { return survivor.Prepare(ctx, ticket) }); err != nil {
		a.core.Log.Error("start ticket not prepared", "call", key, "error", tool.Chain(err))
		return "", refusal(call.ID, perdure.ErrorInternal, perdure.GenericToolError)
	}
	return print, nil
}

func refusal(id perdure.CallID, kind perdure.ErrorKind, text string) *perdure.ToolResult {
	r := perdure.Refused(id, kind, text)
	return &r
}
