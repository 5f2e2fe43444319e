package effect

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// tool finds a tool of the host's by its name, or one of those that look after background work.
func (e *Effects) tool(name string) (tool.Tool, bool) {
	if t, ok := e.cfg.Tools.Get(name); ok {
		return t, true
	}
	return e.watching.Get(name)
}

// validate checks the arguments of a tool that e.tool finds.
func (e *Effects) validate(name string, args json.RawMessage) *tool.Result {
	if e.watching.Has(name) && !e.cfg.Tools.Has(name) {
		return e.watching.Validate(name, args)
	}
	return e.cfg.Tools.Validate(name, args)
}

// withWatching appends the tools that look after background work, unless they are there. A tool of the host's that only has
// the name of one is not taken for it.
func (e *Effects) withWatching(tools []tool.Tool) []tool.Tool {
	for _, name := range e.watching.Names() {
		t, ok := e.tool(name)
		named := func(other tool.Tool) bool { return other.Spec().Name == name }
		if ok && t.Spec().Hints.CapabilityID == backgroundCapability && !slices.ContainsFunc(tools, named) {
			tools = append(tools, t)
		}
	}
	return tools
}

// leftTurn reports whether work of a session goes on outside its turn, or did. Its record may be forgotten while the
// placeholder still stands in the transcript.
func leftTurn(s *perdure.Session) bool {
	for _, t := range s.Tasks {
		if t.Kind != perdure.KindMonitor {
			return true
		}
	}
	return slices.ContainsFunc(s.Transcript, func(m perdure.Message) bool {
		return slices.ContainsFunc(m.Parts, func(p perdure.Part) bool {
			return p.Result != nil && bytes.HasPrefix(p.Result.Result, []byte(`{"type":"background"`))
		})
	})
}
