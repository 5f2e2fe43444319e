package tooltest

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// FailingTool always fails: with an internal error if it has one, else with a tool error. The zero
// value fails with the text "Tool execution failed".
type FailingTool struct {
	Text     string
	Internal error
}

var _ tool.Tool = FailingTool{}

// Spec returns the spec of failing_tool.
func (FailingTool) Spec() tool.Spec {
	yes := true
	return tool.Spec{
		Name:        "failing_tool",
		DisplayName: "Failing Tool",
		Description: "Always fails. For tests.",
		Class:       perdure.Pure,
		Hints:       tool.Hints{ReadOnly: &yes, Idempotent: &yes},
	}
}

// Run fails.
func (f FailingTool) Run(context.Context, tool.Call, tool.Env) tool.Result {
	switch {
	case f.Internal != nil:
		return tool.Internal(f.Internal)
	case f.Text != "":
		return tool.Error(f.Text)
	}
	return tool.Error("Tool execution failed")
}
