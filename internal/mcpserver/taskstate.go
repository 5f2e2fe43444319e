package mcpserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
)

// The states of a task on the wire.
const (
	stateWorking   = "working"
	stateInput     = "input_required"
	stateCompleted = "completed"
	stateFailed    = "failed"
	stateCancelled = "cancelled"
)

// taskState is a task on the wire of 2026-07-28.
type taskState struct {
	TaskID        string `json:"taskId"`
	Status        string `json:"status"`
	StatusMessage string `json:"statusMessage,omitempty"`
	CreatedAt     string `json:"createdAt"`
	LastUpdatedAt string `json:"lastUpdatedAt"`
	TTL           *int64 `json:"ttlMs"` // from its creation; null while it runs (M8)
	PollInterval  int64  `json:"pollIntervalMs,omitempty"`
}

// createdTask answers a call that is a task: flat, without a result.
type createdTask struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
	taskState
}

// legacyState is a task on the wire of 2025-11-25.
type legacyState struct {
	TaskID        string `json:"taskId"`
	Status        string `json:"status"`
	StatusMessage string `json:"statusMessage,omitempty"`
	CreatedAt     string `json:"createdAt"`
	LastUpdatedAt string `json:"lastUpdatedAt"`
	TTL           *int64 `json:"ttl"`
	PollInterval  int64  `json:"pollInterval,omitempty"`
}

// legacyCreated answers a call that is a task: nested.
type legacyCreated struct {
	mcp.ResultBase
	Task legacyState `json:"task"`
}

// taskID is the handle of a call as clients see it.
func taskID(id perdure.CallID) string { return "task_" + strings.TrimPrefix(string(id), "call_") }

// callID is the handle of a task as the ledger knows it.
func callID(id string) (perdure.CallID, bool) {
	digits, ok := strings.CutPrefix(id, "task_")
	return perdure.CallID("call_" + digits), ok && len(digits) == 32
}

// created answers a call with its task. It is committed by now (M1).
func (s *Server) created(p peer, made ofCall) mcp.Result {
	meta := mcp.Meta{metaCall: string(made.ID)}
	if p.modern {
		result := &createdTask{ResultType: "task", taskState: s.state(p, made)}
		result.Meta = meta
		return result
	}
	s.follows(p, made)
	state := s.legacyState(p, made)
	state.Status = stateWorking
	result := &legacyCreated{Task: state}
	result.Meta = meta
	return result
}

// state is the task of a call on the newer wire.
func (s *Server) state(p peer, made ofCall) taskState {
	t := *made.Task
	state := taskState{
		TaskID: taskID(made.ID), Status: s.status(p, made), StatusMessage: lastLine(t),
		CreatedAt: moment(t.CreatedAt), LastUpdatedAt: moment(t.UpdatedAt),
	}
	if t.State.Terminal() {
		ttl := t.FinishedAt.Add(s.cfg.Keep).Sub(t.CreatedAt).Milliseconds()
		state.TTL = &ttl
		return state
	}
	state.PollInterval = pollInterval(time.Since(t.CreatedAt))
	if waitsForOthers(p, t) {
		state.StatusMessage = s.whereToApprove(t)
	}
	return state
}

func (s *Server) legacyState(p peer, made ofCall) legacyState {
	now := s.state(p, made)
	if made.Task.CancelRequested() { // answered so at once, and it stays so
		now.Status = stateCancelled
	}
	return legacyState(now)
}

// status is the state of a task in the words of the wire.
func (s *Server) status(p peer, made ofCall) string {
	t := *made.Task
	switch t.State {
	case perdure.TaskQueued, perdure.TaskRunning:
		return stateWorking
	case perdure.TaskAwaitingInput:
		if t.CancelRequested() || waitsForOthers(p, t) {
			return stateWorking
		}
		return stateInput
	case perdure.TaskCanceled:
		return stateCancelled
	}
	if made.Result == nil || protocolFault(made) != nil {
		return stateFailed
	}
	if p.modern {
		return stateCompleted
	}
	if fields, err := s.resultOf(s.toolOf(t), made); err != nil || isFailure(fields) {
		return stateFailed
	}
	return stateCompleted
}

// toolOf is the marked tool of a task. One that is not marked any more is shown like any other.
func (s *Server) toolOf(t perdure.Task) exposed {
	for _, x := range s.tools {
		if x.Name == t.Tool {
			return x
		}
	}
	return exposed{}
}

// waitsForOthers reports a task that waits for the approval of somebody else than who asks (M10).
func waitsForOthers(p peer, t perdure.Task) bool {
	return t.Waits() && t.InputRequest != nil && t.InputRequest.Kind == "approval" && !p.Approve
}

// whereToApprove says where a person answers.
func (s *Server) whereToApprove(t perdure.Task) string {
	return "Waits for a person's approval: " + t.InputRequest.Prompt + ". Where the server is run: " + s.cfg.Command + " approval list"
}

// lastLine is what the task said last, in a line.
func lastLine(t perdure.Task) string {
	switch {
	case t.State == perdure.TaskSucceeded:
		return "" // its result says it all
	case t.State.Terminal():
		return line(t.Summary)
	}
	if t.Progress != nil && t.Progress.Label != "" {
		return line(t.Progress.Label)
	}
	if own := t.StateDetail; own != "" && own != "Starting" && !strings.HasPrefix(own, "re-attached") {
		return line(own)
	}
	lines := strings.Split(strings.TrimSpace(t.Tail), "\n")
	if last := line(lines[len(lines)-1]); last != "" {
		return last
	}
	if pr := t.Progress; pr != nil && pr.Current != nil {
		if pr.Total != nil && *pr.Total > 0 {
			return fmt.Sprintf("%g of %g", *pr.Current, *pr.Total)
		}
		return fmt.Sprintf("%g", *pr.Current)
	}
	return line(t.StateDetail)
}

// line folds a text to a line of at most 200 characters.
func line(text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	return string(runes[:min(len(runes), 200)])
}

// moment is a time on the wire.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// pollInterval rises with the age of a task, from one second to five (M8).
func pollInterval(age time.Duration) int64 {
	return min(max(1000, age.Milliseconds()/10), 5000)
}

// marshal is json.Marshal of what cannot fail.
func marshal(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}
