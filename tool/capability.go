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

// BackgroundCapability marks the tools that start, watch and cancel background runs. They are there when some other tool has
// work for them, and nobody keeps them out (TL33).
const BackgroundCapability = "background_execution"

// Capability is a set of tools under one id, with what comes along (TL32).
type Capability struct {
	ID          string
	Name        string // for people; empty: the id
	Description string // for people, and for who looks for one
	Tools       []Tool
	Prompt      string       // what the system prompt says while it is active, beside what its tools say; empty: nothing
	Order       int          // of prompts and hooks: the smaller first, then the id
	Hooks       []Hook       // look at the calls of its tools (TL35)
	Files       []agent.File // that a session with it begins with
	// Activate says, of the tools that all other capabilities brought, whether this one is active without being chosen
	// (TL34). It is pure, and once active it stays. nil: it is active only when it is chosen.
	Activate func(tools []Tool) bool
}

// Choice is what a session is to have. The zero value has nothing that does not activate itself.
type Choice struct {
	Capabilities []string // by id
	Tools        []string // of the registry, by name
	AllTools     bool     // every tool of the registry that need not be chosen
	Off          []string // capabilities that are kept out, whoever wants them
}

// Collection is what a choice comes to. Its parts were made in one pass, so that what the model is told and what can be
// executed are the same tools (TL32).
type Collection struct {
	Registry    *Registry
	Definitions []Definition
	Active      []string // capabilities, in their order
	Prompts     []string // of the active capabilities that have one, in that order
	Hooks       []Hook   // likewise; each looks at the tools of its own capability
	Files       []agent.File
}

// RunsBackground reports whether a tool has work for the background set: it can run there, or it starts subagents (TL33).
func RunsBackground(t Tool) bool {
	_, background := t.(Background)
	return background || t.Spec().Hints.CapabilityID == AgentsCapability
}

// Capabilities returns the capabilities that can be chosen: those that are given, and those that tools of the registry say
// they belong to. They are in their order. Invalid: an id is empty or given twice, or a tool has the name of another one.
func Capabilities(registry *Registry, given []Capability) ([]Capability, error) {
	all := slices.Clone(given)
	for i, c := range all {
		again := slices.ContainsFunc(all[:i], func(other Capability) bool { return other.ID == c.ID })
		missing := slices.ContainsFunc(c.Tools, func(t Tool) bool { return t == nil })
		if c.ID == "" || again || missing {
			return nil, fmt.Errorf("%w capability %q: its id is empty, another one has it, or one of its tools is nil", perdure.Invalid, c.ID)
		}
	}
	for _, name := range registry.Names() {
		t, ok := registry.Get(name)
		if !ok {
			continue
		}
		hints := t.Spec().Hints
		if hints.CapabilityID == "" || hints.CapabilityID == LoadingCapability { // that one is judged at each step (TL37)
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
	slices.SortFunc(all, func(a, b Capability) int { return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.ID, b.ID)) })
	return all, nil
}

// activation is the condition of a capability that tools only name.
func activation(id string) func([]Tool) bool {
	switch id {
	case BackgroundCapability:
		return func(tools []Tool) bool { return slices.ContainsFunc(tools, RunsBackground) }
	case ParentCapability: // no session but a subagent sees them, and a subagent has what its parent has
		return func(tools []Tool) bool {
			return slices.ContainsFunc(tools, func(t Tool) bool { return t.Spec().Hints.CapabilityID == AgentsCapability })
		}
	}
	return nil
}

// Collect carries out a choice. Conditions are asked once all that was chosen is there, and once more for what the first round
// brought; then nothing may be left that wants in (TL34). NotFound: no such capability, or no such tool. Invalid: a condition
// wants in after the second round, or what [Capabilities] says.
func Collect(registry *Registry, given []Capability, choice Choice) (Collection, error) {
	all, err := Capabilities(registry, given)
	if err != nil {
		return Collection{}, err
	}
	c := collector{registry: registry, all: all, active: map[string]bool{}, off: choice.Off, base: choice.Tools}
	if choice.AllTools {
		c.base = registry.Defaults()
	}
	for _, name := range c.base {
		if !registry.Has(name) {
			return Collection{}, fmt.Errorf("tool %q: %w: this engine has none of that name", name, perdure.NotFound)
		}
	}
	for _, id := range choice.Capabilities {
		if !slices.ContainsFunc(all, func(known Capability) bool { return known.ID == id }) {
			return Collection{}, fmt.Errorf("capability %q: %w: this engine has none of that id", id, perdure.NotFound)
		}
		c.active[id] = !slices.Contains(choice.Off, id)
	}
	for range 2 {
		for _, id := range c.wanting() {
			c.active[id] = true
		}
	}
	if left := c.wanting(); len(left) > 0 {
		return Collection{}, fmt.Errorf("%w capabilities: %v activate themselves only after the second round: choose one of them", perdure.Invalid, left)
	}
	return c.collection()
}

// collector is a choice on its way.
type collector struct {
	registry *Registry
	all      []Capability
	active   map[string]bool
	off      []string
	base     []string // names of tools that are there without a capability
}

// wanting returns the capabilities whose condition holds and that are not active yet. None sees what another of the same
// round brings.
func (c *collector) wanting() (ids []string) {
	tools := c.tools()
	for _, one := range c.all {
		if one.Activate != nil && !c.active[one.ID] && !slices.Contains(c.off, one.ID) && one.Activate(tools) {
			ids = append(ids, one.ID)
		}
	}
	return ids
}

// tools returns what is collected so far, each tool once: what the registry has in its order, then what it has not.
func (c *collector) tools() []Tool {
	wanted := map[string]Tool{}
	var others []Tool
	add := func(name string, t Tool) {
		if _, there := wanted[name]; !there {
			wanted[name] = t
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
		if t, ok := wanted[name]; ok {
			tools = append(tools, t)
		}
	}
	return append(tools, slices.DeleteFunc(others, func(t Tool) bool { return c.registry.Has(t.Spec().Name) })...)
}

// collection makes definitions and registry of the same tools, in one pass.
func (c *collector) collection() (Collection, error) {
	got := Collection{Registry: &Registry{log: c.registry.log, entries: map[string]entry{}}}
	for _, t := range c.tools() {
		name := t.Spec().Name
		e, known := c.registry.entry(name)
		if known && !reflect.DeepEqual(e.tool.Spec(), t.Spec()) {
			return Collection{}, fmt.Errorf("%w tool %q: another tool of the engine has this name", perdure.Invalid, name)
		}
		if !known {
			var err error
			if e, err = admit(t); err != nil {
				return Collection{}, err
			}
		}
		got.Registry.entries[name] = e
		got.Registry.names = append(got.Registry.names, name)
		got.Definitions = append(got.Definitions, e.definition())
	}
	for _, one := range c.all {
		if !c.active[one.ID] {
			continue
		}
		got.Active = append(got.Active, one.ID)
		if one.Prompt != "" {
			got.Prompts = append(got.Prompts, one.Prompt)
		}
		got.Hooks = append(got.Hooks, one.OwnHooks()...)
		got.Files = append(got.Files, one.Files...)
	}
	return got, nil
}

// OwnHooks returns the capability's hooks, each of which looks at the calls of its tools only.
func (c Capability) OwnHooks() []Hook {
	var names []string
	for _, t := range c.Tools {
		names = append(names, t.Spec().Name)
	}
	var hooks []Hook
	for _, h := range c.Hooks {
		hooks = append(hooks, ownHook{hook: h, tools: names})
	}
	return hooks
}

// ownHook is a hook for some tools.
type ownHook struct {
	hook  Hook
	tools []string
}

// BeforeTool asks the hook about a call of its tools.
func (h ownHook) BeforeTool(ctx context.Context, call Call) (Before, error) {
	if !slices.Contains(h.tools, call.Tool) {
		return Before{}, nil
	}
	return h.hook.BeforeTool(ctx, call)
}

// AfterTool asks the hook about a result of its tools.
func (h ownHook) AfterTool(ctx context.Context, call Call, result Result) (After, error) {
	if !slices.Contains(h.tools, call.Tool) {
		return After{}, nil
	}
	return h.hook.AfterTool(ctx, call, result)
}
