package mcpserver

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
)

// The task states of the protocol.
const (
	stateWorking   = "working"
	stateInput     = "input_required"
	stateCompleted = "completed"
	stateFailed    = "failed"
	stateCancelled = "cancelled"
)

// taskState is a task on 2026-07-28.
type taskState struct {
	TaskID        string `json:"taskId"`
	Status        string `json:"status"`
	StatusMessage string `json:"statusMessage,omitempty"`
	CreatedAt     string `json:"createdAt"`
	LastUpdatedAt string `json:"lastUpdatedAt"`
	TTL           *int64 `json:"ttlMs"` // milliseconds since creation; null while it runs (M8)
	PollInterval  int64  `json:"pollIntervalMs,omitempty"`
}

// createdTask answers a call with a task: flat, without a result.
type createdTask struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
	taskState
}

// legacyState is a task on 2025-11-25.
type legacyState struct {
	TaskID        string `json:"taskId"`
	Status        string `json:"status"`
	StatusMessage string `json:"statusMessage,omitempty"`
	CreatedAt     string `json:"createdAt"`
	LastUpdatedAt string `json:"lastUpdatedAt"`
	TTL           *int64 `json:"ttl"`
	PollInterval  int64  `json:"pollInterval,omitempty"`
}

// legacyCreated answers a call with a task: nested.
type legacyCreated struct {
	mcp.ResultBase
	Task legacyState `json:"task"`
}

// taskID returns the task handle of a call, as shown to clients.
func taskID(id perdure.CallID) string { return "task_" + strings.TrimPrefix(string(id), "call_") }

// callID returns the call of a task handle.
func callID(id string) (perdure.CallID, bool) {
	digits, ok := strings.CutPrefix(id, "task_")
	return perdure.CallID("call_" + digits), ok && len(digits) == 32
}

// created answers a call with its task, which is already committed (M1).
func (s *Server) created(p peer, made trackedCall) mcp.Result {
	meta := mcp.Meta{metaCall: string(made.ID)}
	if p.modern {
		result := &createdTask{ResultType: "task", taskState: s.state(p, made)}
		result.Meta = meta
		return result
	}
	notifier{s}.startNotifying(p, made)
	state := s.legacyState(p, made)
	state.Status = stateWorking
	result := &legacyCreated{Task: state}
	result.Meta = meta
	return result
}

// state returns the task of a call on 2026-07-28.
func (s *Server) state(p peer, made trackedCall) taskState {
	t := *made.Task
	state := taskState{
		TaskID: taskID(made.ID), Status: s.status(p, made), StatusMessage: lastLine(t),
		CreatedAt: formatTime(t.CreatedAt), LastUpdatedAt: formatTime(t.UpdatedAt),
	}
	if t.State.Terminal() {
		ttl := t.FinishedAt.Add(s.cfg.ResultTTL).Sub(t.CreatedAt).Milliseconds()
		state.TTL = &ttl
		return state
	}
	state.PollInterval = pollInterval(time.Since(t.CreatedAt))
	if needsOtherApprover(p, t) {
		state.StatusMessage = s.approveInstructions(t)
	}
	return state
}

func (s *Server) legacyState(p peer, made trackedCall) legacyState {
	now := s.state(p, made)
	if made.Task.CancelRequested() { // a cancel is acknowledged at once, and the status must not change again
		now.Status = stateCancelled
	}
	return legacyState(now)
}

// status maps the state of a task to the protocol.
func (s *Server) status(p peer, made trackedCall) string {
	t := *made.Task
	switch t.State {
	case perdure.TaskQueued, perdure.TaskRunning:
		return stateWorking
	case perdure.TaskAwaitingInput:
		if t.CancelRequested() || needsOtherApprover(p, t) {
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

// toolOf returns the exposed tool of a task, or the zero value if it is no longer exposed.
func (s *Server) toolOf(t perdure.Task) exposed {
	for _, x := range s.tools {
		if x.Name == t.Tool {
			return x
		}
	}
	return exposed{}
}

// needsOtherApprover reports whether a task waits for an approval that the caller cannot give
// (M10).
func needsOtherApprover(p peer, t perdure.Task) bool {
	return t.AwaitsInput() && t.InputRequest != nil && t.InputRequest.Kind == "approval" && !p.Approve
}

// approveInstructions tells how a person approves.
func (s *Server) approveInstructions(t perdure.Task) string {
	return "Waiting for a person's approval: " + t.InputRequest.Prompt + ". On the server, run: " + s.cfg.Command + " approval list"
}

// lastLine returns the latest status of the task in one line.
func lastLine(t perdure.Task) string {
	switch {
	case t.State == perdure.TaskSucceeded:
		return "" // its result says everything
	case t.State.Terminal():
		return oneLine(t.Summary)
	}
	if t.Progress != nil && t.Progress.Label != "" {
		return oneLine(t.Progress.String())
	}
	if own := t.StateDetail; own != "" && own != "Starting" && !strings.HasPrefix(own, "re-attached") {
		return oneLine(own)
	}
	lines := strings.Split(strings.TrimSpace(t.Tail), "\n")
	if last := oneLine(lines[len(lines)-1]); last != "" {
		return last
	}
	return oneLine(cmp.Or(t.Progress.String(), t.StateDetail))
}

// oneLine collapses white space and cuts the text to 200 characters.
func oneLine(text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	return string(runes[:min(len(runes), 200)])
}

// formatTime formats a time for the protocol.
func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// pollInterval returns the poll interval in milliseconds. It rises with the age of a task, from one
// second to five (M8).
func pollInterval(age time.Duration) int64 {
	return min(max(1000, age.Milliseconds()/10), 5000)
}

// marshal encodes a value whose encoding cannot fail.
func marshal(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}
