// Package toolset knows which tools an agent sees, and how they are described to the model.
//
// It may import the root, model and tool, and internal/effect/core.
//
// The one thing to know: the definitions that a model gets and the tools that its calls may name
// come from one function, Visible, so they cannot differ.
package toolset

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/tool"
)

// Toolset is the tools of this process.
type Toolset struct {
	core *core.Core
	// background is the registry of Config.BackgroundTools. A tool of the host with the same name
	// wins.
	background *tool.Registry
	warned     sync.Map // capabilities with the limit that they exceed, as text
}

// New returns the tools of a configuration.
func New(c *core.Core) *Toolset {
	return &Toolset{core: c, background: tool.NewRegistry(c.BackgroundTools...)}
}

// Find finds a tool of the host, or one of the tools that manage background work.
func (s *Toolset) Find(name string) (tool.Tool, bool) {
	if t, ok := s.core.Tools.Get(name); ok {
		return t, true
	}
	return s.background.Get(name)
}

// Lookup finds a tool that the agent may see.
func (s *Toolset) Lookup(agent perdure.Agent, left bool, name string) (tool.Tool, bool) {
	for _, t := range s.Visible(agent, left) {
		if t.Spec().Name == name {
			return t, true
		}
	}
	return nil, false
}

// Start starts the sources of an agent's tools that are not registered yet. A later step has them.
func (s *Toolset) Start(agent perdure.Agent) { s.core.Tools.Start(agent.Capabilities, agent.Tools) }

// Visible returns the tools that an agent may see, in the order of registration. The definitions
// the model gets and the tools it may execute both come from this one function, so they cannot
// differ. The background tools are visible if another tool can run in the background and the agent
// does not disable them. load_tool is visible if there is a schema or a tool to load. A tool that
// must be chosen is visible only if the agent names it or its capability.
//
// With left, the tools that manage background work are appended whatever was chosen, registered or
// disabled: a placeholder in the transcript names them, and without them the model could not manage
// the work that still runs.
func (s *Toolset) Visible(agent perdure.Agent, left bool) []tool.Tool {
	var tools, loaders []tool.Tool
	useful := false
	for _, name := range s.core.Tools.Names() {
		t, ok := s.core.Tools.Get(name)
		switch {
		case !ok:
		case isLoader(t):
			loaders = append(loaders, t)
		case t.Spec().Hints.CapabilityID == tool.ParentCapability && !agent.Subagent:
		case agent.Tools == nil && (!s.core.Tools.Optional(name) ||
			slices.Contains(agent.Capabilities, t.Spec().Hints.CapabilityID)), slices.Contains(agent.Tools, name),
			s.isLate(agent, t):
			useful = useful || tool.RunsBackground(t)
			tools = append(tools, t)
		}
	}
	if !useful || agent.DisableBackground {
		tools = slices.DeleteFunc(tools, func(t tool.Tool) bool {
			return t.Spec().Hints.CapabilityID == tool.BackgroundCapability
		})
	}
	if left {
		tools = s.withBackgroundTools(tools)
	}
	if len(loaders) > 0 && (slices.ContainsFunc(tools, s.defers(len(tools))) || s.exceeds(agent, len(tools))) {
		tools = append(tools, loaders...)
	}
	return tools
}

// exceeds reports whether the agent's model is described fewer than n tools.
func (s *Toolset) exceeds(agent perdure.Agent, n int) bool {
	limit := s.MaxTools("", agent.Model)
	return limit > 0 && n > limit
}

// isLate reports whether a tool was registered after the session was created, and belongs to a
// capability that the session chose when none of its tools were known.
func (s *Toolset) isLate(agent perdure.Agent, t tool.Tool) bool {
	id := t.Spec().Hints.CapabilityID
	source, ok := s.core.Tools.SourceOf(id)
	return ok && slices.Contains(agent.Capabilities, id) &&
		!slices.ContainsFunc(agent.Tools, func(name string) bool { return strings.HasPrefix(name, source.Prefix) })
}

// withBackgroundTools appends the tools that manage background work, unless they are in tools
// already. A tool of the host that only has the same name does not count.
func (s *Toolset) withBackgroundTools(tools []tool.Tool) []tool.Tool {
	for _, name := range s.background.Names() {
		t, ok := s.Find(name)
		named := func(other tool.Tool) bool { return other.Spec().Name == name }
		if ok && t.Spec().Hints.CapabilityID == tool.BackgroundCapability && !slices.ContainsFunc(tools, named) {
			tools = append(tools, t)
		}
	}
	return tools
}

// Names returns the names of the tools that an agent may see.
func (s *Toolset) Names(agent perdure.Agent, left bool) []string {
	names := []string{}
	for _, t := range s.Visible(agent, left) {
		names = append(names, t.Spec().Name)
	}
	return names
}

// defers returns a function that decides which of n tools are described to the model without their
// schema.
func (s *Toolset) defers(n int) func(tool.Tool) bool {
	return func(t tool.Tool) bool {
		switch spec := t.Spec(); {
		case spec.Deferrable == tool.DeferAlways:
			return true
		// load_tool looks only among the host's tools, so the schema of another tool is never
		// deferred.
		case spec.Deferrable == tool.DeferNever, s.background.Has(spec.Name) && !s.core.Tools.Has(spec.Name):
			return false
		}
		return s.core.Limits.DeferAbove > 0 && n > s.core.Limits.DeferAbove
	}
}

// Definitions returns the definitions of tools for the model, and the parts of the system
// prompt that belong to them.
func (s *Toolset) Definitions(tools []tool.Tool) (told []model.Tool, prompts []string) {
	loadable := slices.ContainsFunc(tools, isLoader)
	n := len(tools)
	if loadable {
		n-- // load_tool itself does not count
	}
	deferred := s.defers(n)
	for _, t := range tools {
		d := tool.DefinitionOf(t)
		if loadable && deferred(t) {
			d = d.Shortened()
		}
		told = append(told, model.Tool{Name: d.Name, Description: d.Description, Parameters: d.Parameters})
		if prompt := t.Spec().Prompt; prompt != "" {
			prompts = append(prompts, prompt)
		}
	}
	return told, prompts
}

// Validate checks the arguments of a tool that e.tool finds.
func (s *Toolset) Validate(name string, args json.RawMessage) *tool.Result {
	if s.background.Has(name) && !s.core.Tools.Has(name) {
		return s.background.Validate(name, args)
	}
	return s.core.Tools.Validate(name, args)
}

// StallOf returns how long a tool may be silent before it counts as stalled; 0: for ever.
func (s *Toolset) StallOf(name string) time.Duration {
	if t, ok := s.Find(name); ok {
		return s.StallFor(t.Spec())
	}
	return 0
}

// StallFor is StallOf for a tool that is known already. The default of the engine does not apply to
// tools that wait for other work, because they are silent while it runs.
func (s *Toolset) StallFor(spec tool.Spec) time.Duration {
	waits := spec.MaxWait > 0 || spec.ExternalAgent || spec.Hints.LongRunning != nil && *spec.Hints.LongRunning
	if spec.Stall == 0 && !waits {
		return s.core.Timing.CallStall
	}
	return max(spec.Stall, 0)
}

// DeadlineOf returns how long an execution of a task may take.
func (s *Toolset) DeadlineOf(task perdure.Task) time.Duration {
	if t, ok := s.Find(task.Tool); ok {
		return s.DeadlineFor(t, task.Spec.Arguments)
	}
	return s.core.Timing.Deadline
}

// DeadlineFor returns how long an execution of a tool may take.
func (s *Toolset) DeadlineFor(t tool.Tool, args json.RawMessage) time.Duration {
	return tool.DeadlineWith(t, args, s.core.Timing.Deadline)
}
