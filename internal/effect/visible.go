package effect

import (
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/tool"
)

// The capabilities that activate themselves.
const (
	backgroundCapability = "background_execution" // starts, watches and cancels background runs (TL33)
	loadingCapability    = tool.LoadingCapability // tells the schemas that a model was not told (TL37)
)

// visible returns the tools that an agent may see, in the order of registration. The model's definitions
// and what may be executed come from this one pass (TL32). The background set is among them when some other
// tool can run in the background and the agent does not keep it out (TL33); load_tool, when there is
// something to load (TL37).
func (e *Effects) visible(agent perdure.Agent) []tool.Tool {
	var tools, loaders []tool.Tool
	useful := false
	for _, name := range e.cfg.Tools.Names() {
		t, ok := e.cfg.Tools.Get(name)
		switch {
		case !ok:
		case t.Spec().Hints.CapabilityID == loadingCapability:
			loaders = append(loaders, t)
		case agent.Tools == nil || slices.Contains(agent.Tools, name):
			_, background := t.(tool.Background)
			useful = useful || background
			tools = append(tools, t)
		}
	}
	if !useful || agent.DisableBackground {
		tools = slices.DeleteFunc(tools, func(t tool.Tool) bool { return t.Spec().Hints.CapabilityID == backgroundCapability })
	}
	if slices.ContainsFunc(tools, e.defers(len(tools))) {
		tools = append(tools, loaders...)
	}
	return tools
}

// names are those of the tools that an agent may see.
func (e *Effects) names(agent perdure.Agent) []string {
	names := []string{}
	for _, t := range e.visible(agent) {
		names = append(names, t.Spec().Name)
	}
	return names
}

// defers says which of n tools a model is told of without their schema (TL37).
func (e *Effects) defers(n int) func(tool.Tool) bool {
	return func(t tool.Tool) bool {
		switch t.Spec().Deferrable {
		case tool.DeferAlways:
			return true
		case tool.DeferNever:
			return false
		}
		return e.cfg.DeferAbove > 0 && n > e.cfg.DeferAbove
	}
}

// lookup finds a tool that the agent may see.
func (e *Effects) lookup(agent perdure.Agent, name string) (tool.Tool, bool) {
	for _, t := range e.visible(agent) {
		if t.Spec().Name == name {
			return t, true
		}
	}
	return nil, false
}

// told is what a model is told of tools, and what the system prompt says while they are there.
func (e *Effects) told(tools []tool.Tool) (told []model.Tool, prompts []string) {
	loadable := slices.ContainsFunc(tools, func(t tool.Tool) bool { return t.Spec().Hints.CapabilityID == loadingCapability })
	n := len(tools)
	if loadable {
		n-- // load_tool itself does not count
	}
	deferred := e.defers(n)
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
