// Package toolset knows which tools an agent sees, and how a model is told of them.
//
// It may import the root, model and tool, and internal/effect/core.
//
// The one thing to know: the definitions that a model gets and the tools that its calls may name
// come from one function, Visible, so they cannot differ.
package toolset

import (
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/tool"
)

// Toolset is the tools of this process.
type Toolset struct {
	core *core.Core
	// background is the registry of Config.BackgroundTools. A tool of the host with the same name
	// wins.
	background *tool.Registry
}

// New returns the tools of a configuration.
func New(c *core.Core) *Toolset {
	return &Toolset{core: c, background: tool.NewRegistry(c.BackgroundTools...)}
}
