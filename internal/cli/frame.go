package cli

import (
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// delta is the live frame of an answer that streams.
type delta struct {
	Delta string `json:"delta"`
}

// callProgress is the live frame of a foreground call's progress.
type callProgress struct {
	CallID  perdure.CallID `json:"call_id"`
	Name    string         `json:"name"`
	Message string         `json:"message"`
	Current float64        `json:"current"`
	Total   float64        `json:"total"`
}

// line says how far the call is.
func (p callProgress) line() string {
	if p.Total > 0 {
		return strings.TrimSpace(fmt.Sprintf("%g/%g %s", p.Current, p.Total, p.Message))
	}
	return p.Message
}

// readFrame reads what a live frame of our own carries; fields that are not looked at are left.
func readFrame[T any](f engine.Frame) (T, error) {
	var content T
	if err := perdure.DecodeKnownJSON(f.Data, &content); err != nil {
		return content, fmt.Errorf("read frame %s: %w", f.Type, err)
	}
	return content, nil
}
