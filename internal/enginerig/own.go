package enginerig

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// The clocks of the tools that have some of their own.
const (
	shortBudget   = 50 * time.Millisecond
	shortDeadline = 1500 * time.Millisecond
)

// guarded is a tool that knows whether it happened.
type guarded struct {
	tool.Tool
	o *Outside
}

// Reconcile looks into the world.
func (g *guarded) Reconcile(context.Context, tool.Call, tool.Env) (tool.Reconciled, error) {
	happened := len(g.o.Effects("guarded")) > 0
	return tool.Reconciled{Happened: happened, DidNotHappen: !happened, Result: tool.Success(answer{"held": "reconciled"})}, nil
}

// connects is a tool that needs a connection.
type connects struct{ tool.Tool }

// Run asks for the connection.
func (*connects) Run(context.Context, tool.Call, tool.Env) tool.Result {
	return tool.Connect("github")
}

// pathed is a tool that says which path it is about.
type pathed struct{ tool.Tool }

// Permissions names the path, and one that every call needs.
func (*pathed) Permissions(call tool.Call) []perdure.Permission {
	var in words
	_ = perdure.DecodeJSON(call.Args, &in) // they were checked
	return []perdure.Permission{{Kind: "path", Target: in.Text}, {Kind: "host", Target: "example.org"}}
}
