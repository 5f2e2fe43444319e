package perdure

import (
	"encoding/json"
	"time"
)

// TurnPhase is the position of a turn between two events.
type TurnPhase string

// The phases of a turn: ready → reasoning → reasoned → ready, or reasoned → acting → ready.
const (
	PhaseReady     TurnPhase = "ready"     // the model has to be called
	PhaseReasoning TurnPhase = "reasoning" // the model is being called
	PhaseReasoned  TurnPhase = "reasoned"  // the model has answered, or the call failed
	PhaseActing    TurnPhase = "acting"    // the calls of its answer run
)

// Turn is the work from an input until the session is idle again: reason steps and act steps in
// turn.
type Turn struct {
	ID         TurnID          `json:"id"`
	Cause      TurnCause       `json:"cause"`
	Input      MessageID       `json:"input,omitempty"`
	Phase      TurnPhase       `json:"phase"`
	Iteration  int             `json:"iteration"` // reason steps so far
	Exec       ExecID          `json:"exec,omitempty"`
	Message    MessageID       `json:"message,omitempty"` // the open or the latest message of the model
	Attempt    int             `json:"attempt"`           // of the model call
	NotBefore  time.Time       `json:"not_before,omitzero"`
	OutputOpen bool            `json:"open"` // output.message.started has no end yet
	Last       ReasonCompleted `json:"last"`
	// of the act step, in the order of the model's message
	Calls                []TurnCall          `json:"calls,omitempty"`
	Interrupt            *InterruptRequested `json:"interrupt,omitempty"`
	DeterminismViolation bool                `json:"violation,omitempty"` // a call id was reused with different content
	// answers of this reason step without text and calls
	EmptyAnswers int `json:"empties,omitempty"`
	// consecutive answers that broke off with text
	BrokenAnswers int `json:"cut_off,omitempty"`
	// the context was compacted after it was too large
	CompactedOnce bool `json:"shrunk,omitempty"`
	// the requested one; empty: the engine's default
	Model string `json:"model,omitempty"`
	// of the messages that entered the transcript in this turn; a later message wins. Never changed
	// in place
	Metadata map[string]string `json:"metadata,omitempty"`
	// traceparent of the message that started the turn
	Trace     string    `json:"trace,omitempty"`
	StartedAt time.Time `json:"started_at"`
	ActAt     time.Time `json:"act_at,omitzero"`
	Loop      Loop      `json:"loop,omitzero"` // evidence of repeated calls

	Usage         Usage     `json:"usage"`
	Final         MessageID `json:"final,omitempty"`
	FinalText     string    `json:"final_text,omitempty"`
	ToolCallCount int       `json:"tool_call_count"`
	LLMCallCount  int       `json:"llm_call_count"`
}

// CallPhase is the phase of a call in an act step.
type CallPhase string

// The phases of a call.
const (
	CallPlanned          CallPhase = "planned"    // not claimed
	CallAwaitingApproval CallPhase = "asking"     // waits for an approval; not claimed
	CallReplanning       CallPhase = "replanning" // a person replaced its arguments; it has to be planned again
	CallAwaitingClient   CallPhase = "requested"  // waits for the client
	CallExecuting        CallPhase = "running"    // claimed and started
	CallDone             CallPhase = "done"       // has its result or placeholder
)

// TurnCall is a call of an act step.
type TurnCall struct {
	PlannedCall
	Args     json.RawMessage `json:"args"`
	Phase    CallPhase       `json:"phase"`
	Result   *ToolResult     `json:"result,omitempty"`
	Approval ApprovalID      `json:"approval_id,omitempty"` // the latest one
	// Connection is the provider to which the session's user has to connect before the call can be
	// answered; empty: the call does not wait for a connection.
	Connection          string       `json:"connection_required,omitempty"`
	ApprovedPermissions []Permission `json:"granted,omitempty"`   // approved together with replaced arguments
	StartedAt           time.Time    `json:"started_at,omitzero"` // of execution, or of the wait for the client
	// DetachIntent is the seq of the pending intent to detach it; 0: none
	DetachIntent int64 `json:"detach_intent,omitempty"`
}

// call returns the call of the step with this id, or nil.
func (t *Turn) call(id CallID) *TurnCall {
	for i := range t.Calls {
		if t.Calls[i].ID == id {
			return &t.Calls[i]
		}
	}
	return nil
}

// InPhase reports whether the call with this id is in the phase.
func (t *Turn) InPhase(id CallID, phase CallPhase) bool {
	c := t.call(id)
	return c != nil && c.Phase == phase
}

// RepeatOf returns the call or task of unknown outcome that a call of the running turn repeats as a
// new effect; empty: none.
func (s *Session) RepeatOf(id CallID) string {
	if s.Turn == nil {
		return ""
	}
	c := s.Turn.call(id)
	if c == nil {
		return ""
	}
	return c.RepeatOf
}

// IsRunning reports whether the call is claimed and has no result yet.
func (t *Turn) IsRunning(id CallID) bool { return t.InPhase(id, CallExecuting) }

// ReadBefore reports whether a call of the step started before the task was resolved. What it read
// of the task may then be the state unknown, so the new outcome still has to be delivered.
func (t *Turn) ReadBefore(id CallID, task Task) bool {
	c := t.call(id)
	return c != nil && !task.ResolvedAt.IsZero() && !task.ResolvedAt.Before(c.StartedAt)
}

// DetachRequested reports whether an intent to detach the call waits to be carried out.
func (t *Turn) DetachRequested(id CallID) bool {
	c := t.call(id)
	return c != nil && c.Phase == CallExecuting && c.DetachIntent > 0
}

// ready reports whether the call can be claimed as soon as the concurrency limits allow it.
func (c TurnCall) ready() bool {
	return c.Phase == CallPlanned && len(c.Permissions) == 0 && c.Refusal == nil && !c.ClientSide
}

// Allowed reports whether the permission was approved together with replaced arguments.
func (c TurnCall) Allowed(p Permission) bool {
	return p.In(c.ApprovedPermissions)
}

// lane returns the lane in which the call starts.
func (c TurnCall) lane() Lane {
	if c.Lane == Background {
		return Background
	}
	return Foreground
}

// startable returns the planned calls that may start now, in the model's order: at most limit run
// at once, and one of each concurrency class. With serial, calls run strictly one after another.
func startable(calls []TurnCall, limit int, serial bool) []TurnCall {
	running := 0
	for _, c := range calls {
		if c.Phase == CallExecuting {
			running++
		}
	}
	if serial {
		limit = 1
	}
	var start []TurnCall
	busy := map[string]bool{}
	for _, c := range calls {
		if c.Phase == CallDone {
			continue
		}
		free := c.Concurrency == "" || !busy[c.Concurrency]
		if c.ready() && free && running < limit {
			start = append(start, c)
			running++
		}
		busy[c.Concurrency] = true
	}
	return start
}

// The codes of failed reason steps that this package uses itself. Adapters of models add their own.
const (
	CodeEmptyAnswer = "empty_answer"           // no text and no calls; the model is called once more
	CodeInterrupted = "interrupted"            // the model call was stopped together with its turn
	CodeTooLarge    = "request_too_large"      // the context is compacted once, then the model is called again
	CodeIdle        = "idle_timeout"           // no progress for too long
	CodeBrokenOff   = "broken_off"             // the engine ended while the model answered
	CodeDeterminism = "determinism_violation"  // a call id was reused with different content
	CodeDependency  = "dependency_unavailable" // an agent or harness of the session is archived or deleted
	CodeProcessing  = "processing_error"       // any other error of the engine
)
