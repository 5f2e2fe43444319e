package taskrecord

import (
	"cmp"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/tool"
)

// Call is a call that becomes a task.
type Call struct {
	Owner  *core.Owner
	Row    perdure.Call
	At     time.Time // time of the message that requests the call
	Secret perdure.Secret
	Name   string
	Origin perdure.Origin
}

// OfCall returns the task of a call, without its state. Its ids derive from the call.
func (rs *Records) OfCall(c Call) perdure.Task {
	task := perdure.Task{
		Session: c.Owner.Session, RootSession: c.Owner.Root(), Kind: perdure.KindBackgroundTool,
		Turn: c.Row.Turn, Call: c.Row.Key.Call,
		Origin: c.Origin, Tool: c.Row.Tool, ArgsHash: c.Row.Fingerprint,
		DisplayName: cmp.Or(c.Name, c.Row.Tool), Class: c.Row.Class,
		Lane: perdure.Background, Attempt: 1, Delivered: perdure.NotDelivered,
		Delivery: perdure.ToLoop, Wake: perdure.WakeContinue,
		Spec: perdure.TaskSpec{Tool: c.Row.Tool, Arguments: c.Row.Args,
			Reattachable: c.Row.Class.Repeatable(), SignalOnCompletion: true},
	}
	task.StallMS, task.Metadata = rs.toolset.StallOf(c.Row.Tool).Milliseconds(), c.Owner.Request
	task.Narration = rs.narration(c.Owner, task)
	if t, ok := rs.toolset.Find(c.Row.Tool); ok {
		task.Kind = KindOf(t)
	}
	if c.Origin == perdure.OriginRouted {
		task.Wake = perdure.WakeNotify
	}
	return Request{Owner: c.Owner, At: c.At, Task: task}.WithIDs(c.Secret)
}

// narration returns the sentence that describes a task to people while it runs; empty if its tool
// has none of its own.
func (rs *Records) narration(owner *core.Owner, t perdure.Task) string {
	target, ok := rs.toolset.Find(t.Tool)
	if !ok || owner == nil {
		return ""
	}
	call := owner.Calls(tool.Call{Session: t.Session, Turn: t.Turn, ID: t.LedgerKey().Call, Task: t.ID, Tool: t.Tool,
		Args: t.Spec.Arguments, Class: t.Class})
	return tool.Sentence(target, call, tool.PhaseStarted, call.For.Locale)
}

// Placeholder returns the result that a detached call gets at once. The real result follows as a
// notification.
func Placeholder(task perdure.Task, left perdure.ToolDetached) perdure.ToolResult {
	switch left.Reason {
	case perdure.DetachedByBudget:
		budget := time.Duration(left.TimeoutSeconds * float64(time.Second))
		return dispatch.BudgetPlaceholder(task.Tool, task.ID, budget, task.DeadlineAt).Result(left.CallID)
	case perdure.DetachedByAsking:
		p := dispatch.RoutedPlaceholder(task.Tool, task.ID, task.DeadlineAt)
		p.Reason, p.Message = "awaiting_input", "Waiting for an answer — use check_background_tool to wait or cancel."
		return p.Result(left.CallID)
	}
	return dispatch.RoutedPlaceholder(task.Tool, task.ID, task.DeadlineAt).Result(left.CallID)
}

// KindOf returns the kind of a tool's tasks.
func KindOf(t tool.Tool) perdure.TaskKind {
	switch spec := t.Spec(); {
	case spec.Hints.CapabilityID == tool.AgentsCapability:
		return perdure.KindSubagent
	case spec.ExternalAgent:
		return perdure.KindExternalAgent
	}
	return perdure.KindBackgroundTool
}
