package effect

import (
	"encoding/json"
	"slices"

	"github.com/perdure/perdure/tool"
)

// tool finds a tool of the host, or one of the tools that manage background work.
func (e *Effects) tool(name string) (tool.Tool, bool) {
	if t, ok := e.core.Tools.Get(name); ok {
		return t, true
	}
	return e.backgroundTools.Get(name)
}

// validate checks the arguments of a tool that e.tool finds.
func (e *Effects) validate(name string, args json.RawMessage) *tool.Result {
	if e.backgroundTools.Has(name) && !e.core.Tools.Has(name) {
		return e.backgroundTools.Validate(name, args)
	}
	return e.core.Tools.Validate(name, args)
}

// withBackgroundTools appends the tools that manage background work, unless they are in tools
// already. A tool of the host that only has the same name does not count.
func (e *Effects) withBackgroundTools(tools []tool.Tool) []tool.Tool {
	for _, name := range e.backgroundTools.Names() {
		t, ok := e.tool(name)
		named := func(other tool.Tool) bool { return other.Spec().Name == name }
		if ok && t.Spec().Hints.CapabilityID == tool.BackgroundCapability && !slices.ContainsFunc(tools, named) {
			tools = append(tools, t)
		}
	}
	return tools
}
