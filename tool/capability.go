package tool

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
)

// BackgroundCapability is the capability of the tools that start, watch and cancel background runs.
// It activates itself if another tool can run in the background, unless it is turned off.
const BackgroundCapability = "background_execution"

// Capability is a named set of tools with their prompt, hooks and files.
type Capability struct {
	ID          string
	Name        string // for people; empty: the id
	Description string // for people
	Tools       []Tool
	Prompt      string       // added to the system prompt while it is active; empty: nothing
	Order       int          // schema prompts and hooks: lower first, then by id
	Hooks       []Hook       // for the calls of its tools
	Files       []agent.File // initial files of a session that has it
	// Activate says whether the capability activates itself, given the tools of all other
	// capabilities. It is a pure function, and an active capability stays active. nil: it must be
	// chosen.
	Activate func(tools []Tool) bool
}

// Choice selects tools and capabilities. The zero value has only capabilities that activate
// themselves.
type Choice struct {
	Capabilities []string // by id
	Tools        []string // of the registry, by name
	AllTools     bool     // every tool of the registry that is not optional
	Disabled     []string // capabilities that are turned off, even if they are chosen
}

// Collection is the result of a choice. Its parts are made in one pass, so that the definitions for
// the model and the executable tools are the same.
type Collection struct {
	Registry    *Registry
	Definitions []Definition
	Active      []string // ids of the active capabilities, in order
	Prompts     []string // prompts of the active capabilities, in order
	Hooks       []Hook   // hooks of the active capabilities, in order; each sees only the tools of its own capability
	Files       []agent.File
}

// RunsBackground reports whether a tool makes the background tools useful: it can run in the
// background, or it starts subagents.
func RunsBackground(t Tool) bool {
	_, background := t.(Background)
	return background || t.Spec().Hints.CapabilityID == AgentsCapability
}

// Capabilities returns the capabilities that can be chosen: the given ones, those that tools of the
// registry declare, and those whose tools it expects. They are sorted by order and id. Invalid: an
// id is empty or occurs twice, or a tool is nil.
func Capabilities(registry *Registry, given []Capability) ([]Capability, error) {
	all := slices.Clone(given)
	for i, c := range all {
		again := slices.ContainsFunc(all[:i], func(other Capability) bool { return other.ID == c.ID })
		missing := slices.ContainsFunc(c.Tools, func(t Tool) bool { return t == nil })
		if c.ID == "" || again || missing {
			return nil, fmt.Errorf("%w capability %q: its id is empty or not unique, or one of its tools is nil",
				perdure.Invalid, c.ID)
		}
	}
	for _, name := range registry.Names() {
		t, ok := registry.Get(name)
		if !ok {
			continue
		}
		hints := t.Spec().Hints
		if hints.CapabilityID == "" || hints.CapabilityID == LoadingCapability { // each step decides about that one
			continue
		}
		i := slices.IndexFunc(all, func(c Capability) bool { return c.ID == hints.CapabilityID })
		if i < 0 {
			i = len(all)
			all = append(all, Capability{ID: hints.CapabilityID, Name: hints.CapabilityName, Activate: activation(hints.CapabilityID)})
		}
		if !slices.ContainsFunc(all[i].Tools, func(other Tool) bool { return other.Spec().Name == name }) {
			all[i].Tools = append(slices.Clone(all[i].Tools), t)
		}
	}
	for _, s := range registry.expected() {
		if !slices.ContainsFunc(all, func(c Capability) bool { return c.ID == s.Capability }) {
			all = append(all, Capability{ID: s.Capability, Name: s.Name})
		}
	}
	slices.SortFunc(all, func(a, b Capability) int { return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.ID, b.ID)) })
	return all, nil
}

// activation returns the condition of a capability that tools declare.
func activation(id string) func([]Tool) bool {
	switch id {
	case BackgroundCapability:
		return func(tools []Tool) bool { return slices.ContainsFunc(tools, RunsBackground) }
	case ParentCapability: // only subagents have it, and a subagent has what its parent has
		return func(tools []Tool) bool {
			return slices.ContainsFunc(tools, func(t Tool) bool { return t.Spec().Hints.CapabilityID == AgentsCapability })
		}
	}
	return nil
}

// Collect evaluates a choice. The conditions are evaluated after everything chosen was added, and
// once more with what the first round added. Invalid: a condition still becomes true after the
// second round, or the error is that of [Capabilities]. NotFound: a capability or a tool does not
// exist.
func Collect(registry *Registry, given []Capability, choice Choice) (Collection, error) {
	all, err := Capabilities(registry, given)
	if err != nil {
		return Collection{}, err
	}
	c := collector{registry: registry, all: all, active: map[string]bool{}, off: choice.Disabled, base: choice.Tools}
	if choice.AllTools {
		c.base = registry.Defaults()
	}
	for _, name := range c.base {
		if _, later := registry.Expects(name); !later && !registry.Has(name) {
			return Collection{}, fmt.Errorf("tool %q: %w: this engine has no such tool", name, perdure.NotFound)
		}
	}
	for _, id := range choice.Capabilities {
		if !slices.ContainsFunc(all, func(one Capability) bool { return one.ID == id }) {
			return Collection{}, fmt.Errorf("capability %q: %w: this engine has no such capability",
				id, perdure.NotFound)
		}
		c.active[id] = !slices.Contains(choice.Disabled, id)
	}
	for range 2 {
		for _, id := range c.activating() {
			c.active[id] = true
		}
	}
	if left := c.activating(); len(left) > 0 {
		return Collection{}, fmt.Errorf("%w capabilities: %v would only activate after the second round: "+
			"choose one of them explicitly", perdure.Invalid, left)
	}
	return c.collection()
}

// collector evaluates one choice.
type collector struct {
	registry *Registry
	all      []Capability
	active   map[string]bool
	off      []string
	base     []string // names of tools that are included without a capability
}

// activating returns the inactive capabilities whose condition holds. None of them sees what
// another one of the same round adds.
func (c *collector) activating() (ids []string) {
	tools := c.tools()
	for _, one := range c.all {
		if one.Activate != nil && !c.active[one.ID] && !slices.Contains(c.off, one.ID) && one.Activate(tools) {
			ids = append(ids, one.ID)
		}
	}
	return ids
}

// tools returns the tools collected so far, each once: those of the registry in its order, then the
// others.
func (c *collector) tools() []Tool {
	selected := map[string]Tool{}
	var others []Tool
	add := func(name string, t Tool) {
		if _, there := selected[name]; !there {
			selected[name] = t
			others = append(others, t)
		}
	}
	for _, name := range c.base {
		if t, ok := c.registry.Get(name); ok && !slices.Contains(c.off, t.Spec().Hints.CapabilityID) {
			add(name, t)
		}
	}
	for _, one := range c.all {
		if !c.active[one.ID] {
			continue
		}
		for _, t := range one.Tools {
			add(t.Spec().Name, t)
		}
	}
	var tools []Tool
	for _, name := range c.registry.Names() {
		if t, ok := selected[name]; ok {
			tools = append(tools, t)
		}
	}
	return append(tools, slices.DeleteFunc(others, func(t Tool) bool { return c.registry.Has(t.Spec().Name) })...)
}

// collection makes the definitions and the registry from the same tools in one pass.
func (c *collector) collection() (Collection, error) {
	result := Collection{Registry: &Registry{log: c.registry.log, entries: map[string]entry{}}}
	for _, t := range c.tools() {
		name := t.Spec().Name
		e, known := c.registry.entry(name)
		if known && !reflect.DeepEqual(e.tool.Spec(), t.Spec()) {
			return Collection{}, fmt.Errorf("%w tool %q: another tool of the engine has this name", perdure.Invalid, name)
		}
		if !known {
			var err error
			if e, err = checkAndCompile(t); err != nil {
				return Collection{}, err
			}
		}
		result.Registry.entries[name] = e
		result.Registry.names = append(result.Registry.names, name)
		result.Definitions = append(result.Definitions, e.definition())
	}
	for _, one := range c.all {
		if !c.active[one.ID] {
			continue
		}
		result.Active = append(result.Active, one.ID)
		if one.Prompt != "" {
			result.Prompts = append(result.Prompts, one.Prompt)
		}
		result.Hooks = append(result.Hooks, one.ScopedHooks()...)
		result.Files = append(result.Files, one.Files...)
	}
	return result, nil
}

// ScopedHooks returns the hooks of the capability, restricted to the calls of its tools.
func (c Capability) ScopedHooks() []Hook {
	var names []string
	for _, t := range c.Tools {
		names = append(names, t.Spec().Name)
	}
	var hooks []Hook
	for _, h := range c.Hooks {
		hooks = append(hooks, capabilityHook{hook: h, tools: names})
	}
	return hooks
}

// capabilityHook is a hook that is restricted to some tools.
type capabilityHook struct {
	hook  Hook
	tools []string
}

// BeforeTool calls the hook for its tools.
func (h capabilityHook) BeforeTool(ctx context.Context, call Call) (Before, error) {
	if !slices.Contains(h.tools, call.Tool) {
		return Before{}, nil
	}
	return h.hook.BeforeTool(ctx, call)
}

// AfterTool calls the hook for its tools.
func (h capabilityHook) AfterTool(ctx context.Context, call Call, result Result) (After, error) {
	if !slices.Contains(h.tools, call.Tool) {
		return After{}, nil
	}
	return h.hook.AfterTool(ctx, call, result)
}
