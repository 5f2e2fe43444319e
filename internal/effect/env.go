package effect

import "github.com/perdure/perdure"

// ToolProgress is the frame that reports the progress of a foreground call.
type ToolProgress struct {
	CallID  perdure.CallID `json:"call_id"`
	Name    string         `json:"name"`
	Message string         `json:"message,omitempty"`
	Current float64        `json:"current,omitempty"`
	Total   float64        `json:"total,omitempty"`
}
