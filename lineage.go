package perdure

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Lineage is whose subagent a session is (SA1). It is fixed in session.created.
type Lineage struct {
	Parent SessionID `json:"parent_session_id"`
	Root   SessionID `json:"root_session_id"`
	Call   CallID    `json:"call_id"`          // of the parent, that asked for it
	Task   TaskID    `json:"task_id"`          // the parent's record of it
	Depth  int       `json:"depth"`            // of the session; a root has 0
	Payers []string  `json:"payers,omitempty"` // the agents above it, by id and by name: what it spends counts on their budgets, too (BU1)
}

// SessionStopped ends the work of a subagent for good: its turn is interrupted, and nothing that waits starts another
// one, until a person speaks to it (SA11).
type SessionStopped struct {
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// The words that a turn's end is kept under.
const (
	turnCompleted = "completed"
	turnFailed    = "failed"
	turnCanceled  = "canceled"
	turnSealed    = "sealed"
)

// TurnEnd is how the last turn of a session ended.
type TurnEnd struct {
	Turn   TurnID     `json:"turn_id"`
	How    string     `json:"how"` // completed, failed, canceled or sealed
	Stop   StopReason `json:"stop_reason,omitempty"`
	Final  string     `json:"final,omitempty"`  // the last answer's text
	Code   string     `json:"code,omitempty"`   // of 4.6
	Reason string     `json:"reason,omitempty"` // why it failed, was canceled or sealed
	By     string     `json:"by,omitempty"`     // who canceled it
}

// endOf keeps of a turn's end what is asked for later.
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

// stop notes that nothing is to go on.
func (s *Session) stop(f SessionStopped) {
	s.Stopped = &f
	if s.Turn != nil && s.Turn.Interrupt == nil {
		s.Turn.Interrupt = &InterruptRequested{By: f.By, Reason: f.Reason}
	}
}

// RootID is the root of the session's tree: itself, when it is nobody's subagent.
func (s *Session) RootID() SessionID {
	if s.Lineage == nil {
		return s.ID
	}
	return s.Lineage.Root
}

// ChildOutcome is what a subagent came to.
type ChildOutcome struct {
	State  TaskState // terminal
	Answer string    // when it succeeded
	Error  *TaskError
	Detail string
}

// ChildOutcome says what a subagent came to, by the table of SA9: by how its turn ended, never because it is at rest. Not
// ended: its turn runs, something is queued that starts the next one, or its own background work will wake it.
func (s *Session) ChildOutcome() (o ChildOutcome, ended bool) {
	last := s.LastTurn
	if s.Turn == nil && s.Halt != nil && last != nil { // also when its input still waits
		return ChildOutcome{State: TaskFailed, Error: &TaskError{Kind: ErrorRejected, Message: last.Reason}, Detail: turnFailed}, true
	}
	if s.Turn != nil || s.Stopped == nil && (last == nil || len(s.Queue) > 0) {
		return o, false
	}
	if s.Stopped != nil {
		return ChildOutcome{State: TaskCanceled, Detail: "canceled"}, len(s.OpenTasks()) == 0 // children settle before parents (SA11)
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
	case s.wakes() || s.willWake():
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

// willWake reports whether work of the session's own is under way that starts a turn when it ends.
func (s *Session) willWake() bool {
	return s.Continuations < s.Agent.maxContinuations() &&
		slices.ContainsFunc(s.OpenTasks(), func(t Task) bool { return t.Delivery == ToLoop && t.Wake == WakeContinue })
}

// ChildWaits reports whether the subagent that a call waits for waits for a person.
func (s *Session) ChildWaits(call CallID) bool {
	for _, t := range s.Tasks {
		if t.Call == call && t.Kind == KindSubagent && t.Waits() {
			return true
		}
	}
	return false
}

// Question is what a session waits for a person with, as its parent's record of it shows that (SA10); nil: nothing. Of
// several it is the oldest task's, then the one whose approval has the smallest id.
func (s *Session) Question() *InputRequest {
	for _, t := range s.OpenTasks() {
		if t.Waits() && t.InputRequest != nil {
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
		Prompt: fmt.Sprintf("%s asks to run %s: decide %s", s.Title, first.Tool, first.ID),
	}
}

// Child returns the agent of a subagent: what is wanted, with no right that the parent does not have (SA6). Tools are
// those of both; a dry run stays one; limits are the tighter ones.
func (a Agent) Child(wanted Agent) Agent {
	child := wanted
	child.Subagent, child.Order = true, ""
	switch {
	case a.Tools == nil:
	case wanted.Tools == nil:
		child.Tools = slices.Clone(a.Tools)
	default:
		child.Tools = slices.DeleteFunc(slices.Clone(wanted.Tools), func(name string) bool { return !slices.Contains(a.Tools, name) })
	}
	if child.Tools != nil && len(child.Tools) == 0 {
		child.Tools = []string{} // none, which is not all
	}
	child.DryRun = a.DryRun || wanted.DryRun
	child.AskEffects = a.AskEffects || wanted.AskEffects
	child.AskUntrusted = a.AskUntrusted || wanted.AskUntrusted
	child.DisableBackground = a.DisableBackground || wanted.DisableBackground
	child.ClientTools, child.ClientConnections = false, false // the client speaks with the parent
	child.MaxIterations = tighter(a.MaxIterations, wanted.MaxIterations)
	child.MaxContinuations = tighter(a.MaxContinuations, wanted.MaxContinuations)
	child.MaxParallelCalls = tighter(a.MaxParallelCalls, wanted.MaxParallelCalls)
	child.SerialCalls = a.SerialCalls || wanted.SerialCalls
	child.Locale, child.Timezone = orString(wanted.Locale, a.Locale), orString(wanted.Timezone, a.Timezone)
	child.Model = orString(wanted.Model, a.Model)
	child.Network = a.Network.Narrow(wanted.Network)
	return child
}

// tighter is the smaller of two limits, of which 0 is none.
func tighter(a, b int) int {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// ChildResult is the answer of a subagent as JSON: what it wrote when that is JSON and a schema is asked for, else its text.
// Not ok: JSON was asked for, and it is none.
func ChildResult(answer string, structured bool) (result json.RawMessage, ok bool) {
	if !structured {
		text, err := marshalPlain(answer)
		return text, err == nil
	}
	body := strings.TrimSpace(answer)
	if inner, fenced := strings.CutPrefix(body, "```"); fenced { // a fence is a habit of models, not a fault
		inner = strings.TrimPrefix(inner, "json")
		body = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(inner), "```"))
	}
	canonical, err := CanonicalJSON(json.RawMessage(body))
	return canonical, err == nil && body != ""
}
