package dispatch

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/perdure/perdure"
)

// Placeholder is the one result of a call that runs in the background. It is not an error.
type Placeholder struct {
	Type           string         `json:"type"` // always "background"
	Tool           string         `json:"tool"`
	TimeoutSeconds float64        `json:"timeout_seconds,omitempty"` // the soft budget that was used up
	Reason         string         `json:"reason,omitempty"`          // "routed": the host's policy or request
	BackgroundID   perdure.TaskID `json:"background_id"`             // the task id, as check_background_tool names it
	TaskID         perdure.TaskID `json:"task_id"`
	Message        string         `json:"message"`
	DeadlineAt     time.Time      `json:"deadline_at,omitzero"`
}

// BudgetPlaceholder is for a call whose soft budget was used up. A zero deadline is left out.
func BudgetPlaceholder(tool string, task perdure.TaskID, budget time.Duration, deadline time.Time) Placeholder {
	p := newPlaceholder(tool, task, deadline)
	p.TimeoutSeconds = budget.Seconds()
	return p.ForTools(hasCheckTool)
}

// RoutedPlaceholder is for a call that a policy or a host sent to the background. A zero deadline
// is left out.
func RoutedPlaceholder(tool string, task perdure.TaskID, deadline time.Time) Placeholder {
	p := newPlaceholder(tool, task, deadline)
	p.Reason = "routed"
	return p.ForTools(hasCheckTool)
}

// checkTool is the tool with which the model waits for a background call or cancels it.
const checkTool = "check_background_tool"

// hasCheckTool is the offers function of a model that has checkTool.
func hasCheckTool(name string) bool { return name == checkTool }

// ForTools adapts the message to a model that has the tools for which offers is true. It mentions
// no others.
func (p Placeholder) ForTools(offers func(tool string) bool) Placeholder {
	state, more := "Running in the background", ""
	if p.TimeoutSeconds > 0 {
		state, more = fmt.Sprintf("Still running after %ss",
			strconv.FormatFloat(p.TimeoutSeconds, 'f', -1, 64)), " longer"
	}
	p.Message = state + " — the result comes later. Do not repeat the call."
	if offers(checkTool) {
		p.Message = fmt.Sprintf("%s — use %s to wait%s or cancel.", state, checkTool, more)
	}
	return p
}

func newPlaceholder(tool string, task perdure.TaskID, deadline time.Time) Placeholder {
	return Placeholder{Type: "background", Tool: tool, BackgroundID: task, TaskID: task, DeadlineAt: deadline.UTC()}
}

// Result returns the placeholder as the result of a call.
func (p Placeholder) Result(call perdure.CallID) perdure.ToolResult {
	body, err := json.Marshal(p)
	if err != nil { // only for a time after the year 9999
		p.DeadlineAt = time.Time{}
		body, _ = json.Marshal(p)
	}
	return perdure.ToolResult{CallID: call, Result: body}
}
