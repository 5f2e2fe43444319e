package enginerig

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// The timeouts of the tools that set their own.
const (
	shortBudget   = 50 * time.Millisecond
	shortDeadline = 1500 * time.Millisecond
)

// reconcilingTool is a tool that can reconcile.
type reconcilingTool struct {
	tool.Tool
	o *Outside
}

// Reconcile looks for the effect in the outside world.
func (g *reconcilingTool) Reconcile(context.Context, tool.Call, tool.Env) (tool.Reconciled, error) {
	happened := len(g.o.Effects("guarded")) > 0
	return tool.Reconciled{
		Happened: happened, DidNotHappen: !happened, Result: tool.Success(answer{"held": "reconciled"}),
	}, nil
}

// connectionTool is a tool that needs a connection.
type connectionTool struct{ tool.Tool }

// Run requests the connection.
func (*connectionTool) Run(context.Context, tool.Call, tool.Env) tool.Result {
	return tool.Connect("github")
}

// pathTool is a tool that needs permission for the path in its arguments.
type pathTool struct{ tool.Tool }

// Permissions returns the path, and a host that every call needs.
func (*pathTool) Permissions(call tool.Call) []perdure.Permission {
	var in textArgs
	_ = perdure.DecodeJSON(call.Args, &in) // the arguments are valid
	return []perdure.Permission{{Kind: "path", Target: in.Text}, {Kind: "host", Target: "example.org"}}
}
