package dispatch

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/perdure/perdure"
)

// Placeholder is the one result, not an error, of a call that left the foreground (LN6).
type Placeholder struct {
	Type           string         `json:"type"` // always "background"
	Tool           string         `json:"tool"`
	TimeoutSeconds float64        `json:"timeout_seconds,omitempty"` // the soft budget that passed
	Reason         string         `json:"reason,omitempty"`          // "routed": a policy's doing
	BackgroundID   perdure.TaskID `json:"background_id"`             // the task, in the word of check_background_tool
	TaskID         perdure.TaskID `json:"task_id"`
	Message        string         `json:"message"`
	DeadlineAt     time.Time      `json:"deadline_at,omitzero"`
}

// BudgetPlaceholder is that of a call whose soft budget passed. A zero deadline is left out.
func BudgetPlaceholder(tool string, task perdure.TaskID, budget time.Duration, deadline time.Time) Placeholder {
	p := newPlaceholder(tool, task, deadline)
	p.TimeoutSeconds = budget.Seconds()
	p.Message = fmt.Sprintf("Still running after %ss — use check_background_tool to wait longer or cancel.", strconv.FormatFloat(p.TimeoutSeconds, 'f', -1, 64))
	return p
}

// RoutedPlaceholder is that of a call that a policy or a host sent to the background. A zero deadline is left out.
func RoutedPlaceholder(tool string, task perdure.TaskID, deadline time.Time) Placeholder {
	p := newPlaceholder(tool, task, deadline)
	p.Reason = "routed"
	p.Message = "Running in the background — use check_background_tool to wait or cancel."
	return p
}

func newPlaceholder(tool string, task perdure.TaskID, deadline time.Time) Placeholder {
	return Placeholder{Type: "background", Tool: tool, BackgroundID: task, TaskID: task, DeadlineAt: deadline.UTC()}
}

// Result is the placeholder as the result of a call.
func (p Placeholder) Result(call perdure.CallID) perdure.ToolResult {
	body, err := json.Marshal(p)
	if err != nil { // a moment past the year 9999 is the only way
		p.DeadlineAt = time.Time{}
		body, _ = json.Marshal(p)
	}
	return perdure.ToolResult{CallID: call, Result: body}
}
