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
	return p.Offering(checks)
}

// RoutedPlaceholder is that of a call that a policy or a host sent to the background. A zero deadline is left out.
func RoutedPlaceholder(tool string, task perdure.TaskID, deadline time.Time) Placeholder {
	p := newPlaceholder(tool, task, deadline)
	p.Reason = "routed"
	return p.Offering(checks)
}

// checkTool is the tool by which a model waits for a background call or cancels it.
const checkTool = "check_background_tool"

// checks is a model that has the tool.
func checks(name string) bool { return name == checkTool }

// Offering is the placeholder for a model that has the tools of which offers says so: its message names no other.
func (p Placeholder) Offering(offers func(tool string) bool) Placeholder {
	begins, more := "Running in the background", ""
	if p.TimeoutSeconds > 0 {
		begins, more = fmt.Sprintf("Still running after %ss", strconv.FormatFloat(p.TimeoutSeconds, 'f', -1, 64)), " longer"
	}
	p.Message = begins + " — the result comes later. Do not repeat the call."
	if offers(checkTool) {
		p.Message = fmt.Sprintf("%s — use %s to wait%s or cancel.", begins, checkTool, more)
	}
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
