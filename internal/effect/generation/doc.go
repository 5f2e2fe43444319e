// Package generation asks the model: it builds the request, streams the response past guardrails
// and secrets, stores checkpoints of its text, and turns the response into an outcome.
//
// It may import the root, agent, budget, model, store and tool, of internal: meter, redact and
// secretargs, and of internal/effect: core, secrets and toolset.
//
// The one thing to know: text is shown and stored only after guardrails and secrets were checked.
// The message, its cost and the plan of its calls are one outcome, so no call exists before its
// message does.
package generation

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/toolset"
)

// Planner decides how the calls of a response run.
type Planner interface {
	Plan(ctx context.Context, s *perdure.Session, calls []perdure.ToolCall) perdure.ActStarted
}

// Generator asks the model.
type Generator struct {
	core    *core.Core
	toolset *toolset.Toolset
	secrets *secrets.Secrets
	planner Planner
}

// New returns a generator whose calls are planned by planner.
func New(c *core.Core, tools *toolset.Toolset, sec *secrets.Secrets, planner Planner) *Generator {
	return &Generator{core: c, toolset: tools, secrets: sec, planner: planner}
}
