package perdure

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/internal/strictjson"
)

// Lineage links a subagent to its parent. It is fixed in session.created.
type Lineage struct {
	Parent SessionID `json:"parent_session_id"`
	Root   SessionID `json:"root_session_id"`
	Call   CallID    `json:"call_id"` // the parent's call that created it
	Task   TaskID    `json:"task_id"` // the parent's task for it
	Depth  int       `json:"depth"`   // levels below the root, which has 0
	// BudgetAgents are the agents above it, by id and by name. Their budgets also pay for this
	// session.
	BudgetAgents []string `json:"payers,omitempty"`
}

// SessionStopped ends the work of a subagent: its turn is interrupted, and nothing that waits
// starts another turn until a person sends it a message.
type SessionStopped struct {
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
	Force  bool   `json:"force,omitempty"` // its running calls end without a grace period
}

// The ways in which a turn ends, as TurnEnd stores them.
const (
	turnCompleted = "completed"
	turnFailed    = "failed"
	turnCanceled  = "canceled"
	turnSealed    = "sealed"
)

// TurnEnd describes how the last turn of a session ended.
type TurnEnd struct {
	Turn   TurnID     `json:"turn_id"`
	How    string     `json:"how"` // completed, failed, canceled or sealed
	Stop   StopReason `json:"stop_reason,omitempty"`
	Final  string     `json:"final,omitempty"`  // the text of the last answer
	Code   string     `json:"code,omitempty"`   // of a failed turn
	Reason string     `json:"reason,omitempty"` // why it failed, was canceled or sealed
	By     string     `json:"by,omitempty"`     // who canceled it
}

// endOf returns the description of the turn's end that a parent session reads later.
func (t *Turn) endOf(fact Fact) TurnEnd {
	end := TurnEnd{Turn: t.ID}
	switch f := fact.(type) {
	case TurnCompleted:
		end.How, end.Stop, end.Final = turnCompleted, f.StopReason, t.FinalText
	case TurnFailed:
		end.How, end.Code, end.Reason = turnFailed, f.Code, f.Error
	case TurnCanceled:
		end.How, end.By, end.Reason = turnCanceled, f.By, f.Reason
	case TurnSealed:
		end.How, end.Reason = turnSealed, strings.TrimSuffix(f.Reason+": "+f.Detail, ": ")
	}
	return end
}

// stop folds the end of a subagent's work.
func (s *Session) stop(f SessionStopped) {
	f.Force = f.Force || s.Stopped != nil && s.Stopped.Force
	s.Stopped = &f
	if s.Turn != nil && s.Turn.Interrupt == nil {
		s.Turn.Interrupt = &InterruptRequested{By: f.By, Reason: f.Reason}
	}
}

// RootID returns the root of the session's tree; a session without a parent is its own root.
func (s *Session) RootID() SessionID {
	if s.Lineage == nil {
		return s.ID
	}
	return s.Lineage.Root
}

// ChildOutcome is the result of a subagent.
type ChildOutcome struct {
	State  TaskState // a terminal state
	Answer string    // if it succeeded
	Error  *TaskError
	Detail string
}

// ChildOutcome returns the result of a subagent, which depends on how its turn ended; being idle is
// not enough. ended is false while its turn runs, while a queued message will start the next turn,
// or while its own background work will wake it.
func (s *Session) ChildOutcome() (o ChildOutcome, ended bool) {
	last := s.LastTurn
	if s.Turn == nil && s.Halt != nil && last != nil { // even with an input in the queue
		return ChildOutcome{State: TaskFailed, Error: &TaskError{Kind: ErrorRejected, Message: last.Reason}, Detail: turnFailed}, true
	}
	if s.Turn != nil || s.Stopped == nil && (last == nil || len(s.Queue) > 0) {
		return o, false
	}
	if s.Stopped != nil {
		// Its own tasks settle first.
		return ChildOutcome{State: TaskCanceled, Detail: "canceled"}, len(s.OpenTasks()) == 0
	}
	failed := func(kind ErrorKind, text string) ChildOutcome {
		return ChildOutcome{State: TaskFailed, Error: &TaskError{Kind: kind, Message: text}, Detail: turnFailed}
	}
	switch last.How {
	case turnFailed:
		kind := ErrorTool
		if last.Code == CodeProcessing || last.Code == CodeDeterminism {
			kind = ErrorInternal
		}
		return failed(kind, strings.TrimSuffix(last.Code+": "+last.Reason, ": ")), true
	case turnCanceled:
		return ChildOutcome{State: TaskCanceled, Detail: strings.TrimSuffix("canceled by "+last.By+": "+last.Reason, ": ")}, true
	case turnSealed:
		return failed(ErrorRejected, last.Reason), true
	}
	switch {
	case s.startsAutomaticTurn() || s.openWorkStartsTurn():
		return o, false
	case strings.TrimSpace(last.Final) == "":
		return failed(ErrorNoResult, "the subagent ended without an answer"), true
	}
	o = ChildOutcome{State: TaskSucceeded, Answer: last.Final, Detail: turnCompleted}
	if last.Stop == StopMaxIterations {
		o.Detail = "max iterations"
	}
	return o, true
}

// openWorkStartsTurn reports whether open background work of the session will start a turn when it
// ends.
func (s *Session) openWorkStartsTurn() bool {
	return s.Continuations < s.Agent.maxContinuations() &&
		slices.ContainsFunc(s.OpenTasks(), func(t Task) bool { return t.Delivery == ToLoop && t.Wake == WakeContinue })
}

// SubagentAwaitsInput reports whether the call's subagent waits for a person.
func (s *Session) SubagentAwaitsInput(call CallID) bool {
	for _, t := range s.Tasks {
		if t.Call == call && t.Kind == KindSubagent && t.AwaitsInput() {
			return true
		}
	}
	return false
}

// PendingQuestion returns what the session needs a person to answer, in the form in which its
// parent shows it; nil: nothing. If there are several, it is the one of the oldest task, and after
// the tasks the approval with the smallest id.
func (s *Session) PendingQuestion() *InputRequest {
	for _, t := range s.OpenTasks() {
		if t.AwaitsInput() && t.InputRequest != nil {
			return t.InputRequest
		}
	}
	var first *Approval
	for _, a := range s.Approvals {
		if a.Task == "" && (first == nil || a.ID < first.ID) {
			first = &a
		}
	}
	if first == nil {
		return nil
	}
	return &InputRequest{
		ID: RequestID("req_" + strings.TrimPrefix(string(first.ID), "appr_")), Kind: "approval",
		Prompt: fmt.Sprintf("%s asks for approval to run %s: decide %s", s.Title, first.Tool, first.ID),
	}
}

// Child returns the configuration of a subagent. It is wanted, restricted to the rights of the
// parent: only tools that both have, a dry run stays a dry run, and the lower limits apply.
func (a Agent) Child(wanted Agent) Agent {
	child := wanted
	child.Subagent, child.CreateDigest = true, ""
	switch {
	case a.Tools == nil:
	case wanted.Tools == nil:
		child.Tools = slices.Clone(a.Tools)
	default:
		child.Tools = slices.DeleteFunc(slices.Clone(wanted.Tools), func(name string) bool { return !slices.Contains(a.Tools, name) })
	}
	if child.Tools != nil && len(child.Tools) == 0 {
		child.Tools = []string{} // an empty list means no tools; nil would mean all
	}
	// a capability can still bring tools after the start, so the child has only those of its parent
	child.Capabilities = slices.DeleteFunc(slices.Clone(wanted.Capabilities), func(id string) bool {
		return !slices.Contains(a.Capabilities, id)
	})
	child.DryRun = a.DryRun || wanted.DryRun
	child.AskEffects = a.AskEffects || wanted.AskEffects
	child.AskUntrusted = a.AskUntrusted || wanted.AskUntrusted
	child.DisableBackground = a.DisableBackground || wanted.DisableBackground
	child.ClientTools, child.ClientConnections = false, false // the client is connected to the parent only
	child.MaxIterations = lowerLimit(a.MaxIterations, wanted.MaxIterations)
	child.MaxContinuations = lowerLimit(a.MaxContinuations, wanted.MaxContinuations)
	child.MaxParallelCalls = lowerLimit(a.MaxParallelCalls, wanted.MaxParallelCalls)
	child.Limits = a.Limits.Tighten(wanted.Limits)
	child.SerialCalls = a.SerialCalls || wanted.SerialCalls
	child.Locale, child.Timezone = cmp.Or(wanted.Locale, a.Locale), cmp.Or(wanted.Timezone, a.Timezone)
	child.Model = cmp.Or(wanted.Model, a.Model)
	child.Network = a.Network.Narrow(wanted.Network)
	child.Permissions = childRules(a.Permissions, wanted.Permissions)
	return child
}

// childRules returns the rules of a subagent: it has the restrictions of both, and is allowed only
// what both are allowed.
func childRules(own, wanted []PermissionRule) []PermissionRule {
	rules := slices.DeleteFunc(slices.Clone(wanted), func(r PermissionRule) bool {
		return r.Decision == Allow && !slices.Contains(own, r)
	})
	for _, r := range own {
		if r.Decision != Allow && !slices.Contains(rules, r) {
			rules = append(rules, r)
		}
	}
	return rules
}

// lowerLimit returns the lower of two limits; 0 is no limit.
func lowerLimit[N int | int64](a, b N) N {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// ChildResult returns the answer of a subagent as JSON. If structured is false it is the text as a
// JSON string. Otherwise the text must be JSON itself, and ok is false if it is not.
func ChildResult(answer string, structured bool) (result json.RawMessage, ok bool) {
	if !structured {
		text, err := strictjson.Encode(answer)
		return text, err == nil
	}
	body := strings.TrimSpace(answer)
	if inner, fenced := strings.CutPrefix(body, "```"); fenced { // models often put JSON into a code fence
		inner = strings.TrimPrefix(inner, "json")
		body = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(inner), "```"))
	}
	canonical, err := strictjson.Canonical(json.RawMessage(body))
	return canonical, err == nil && body != ""
}
