package tool

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"

	"github.com/perdure/perdure"
)

// Registry holds tools by name. It keeps the order of registration, so that prompts are stable. A
// tool that breaks the contract is refused: it is not in the registry, and [Registry.Err] says why.
// The zero value is empty. Safe for concurrent use; a step uses a [Registry.Snapshot].
type Registry struct {
	mu       sync.RWMutex // guards everything below
	entries  map[string]entry
	names    []string
	refusals []error
	sources  []Source
	log      *slog.Logger // nil: slog.Default
}

// NewRegistry returns a registry with the given tools. The same tool twice counts once. Of two
// tools with the same name the second one is refused, even if their specs are equal.
func NewRegistry(tools ...Tool) *Registry {
	r := &Registry{}
	for _, t := range tools {
		r.add(t, keepFirst)
	}
	return r
}

// registerMode says how a tool is added.
type registerMode int

const (
	keepFirst    registerMode = iota // the first tool of a name stays
	replacement                      // it replaces a tool of the same name
	optionalTool                     // like keepFirst, but sessions must choose it
)

// Builder collects tools for a registry. The zero value is empty, and each method returns a new
// value.
type Builder struct{ tools []Tool }

// Tool adds tools.
func (b Builder) Tool(tools ...Tool) Builder {
	return Builder{tools: append(slices.Clone(b.tools), tools...)}
}

// Build returns the registry, and its refusals as one error.
func (b Builder) Build() (*Registry, error) {
	r := NewRegistry(b.tools...)
	return r, r.Err()
}

// LogTo sets the logger for panics and their stacks. nil: slog.Default.
func (r *Registry) LogTo(log *slog.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = log
}

// Register adds a tool. It replaces a tool of the same name and takes its position, unless it is
// refused. Sessions need not choose it, even if they had to choose the replaced tool.
func (r *Registry) Register(t Tool) { r.add(t, replacement) }

// RegisterOptional adds tools that are not part of the defaults: a session has them only if it
// chooses their capability or names them. Otherwise it is like [NewRegistry].
func (r *Registry) RegisterOptional(tools ...Tool) {
	for _, t := range tools {
		r.add(t, optionalTool)
	}
}

func (r *Registry) add(t Tool, mode registerMode) {
	e, err := checkAndCompile(t)
	e.optional = mode == optionalTool
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.refusals = append(r.refusals, err)
		return
	}
	name := e.spec.Name
	old, exists := r.entries[name]
	switch {
	case !exists:
		r.names = append(r.names, name)
	case mode == keepFirst && !reflect.DeepEqual(old.tool, e.tool), // functions are never equal
		mode == optionalTool && !reflect.DeepEqual(old.spec, e.spec):
		r.refusals = append(r.refusals, fmt.Errorf("%w tool %q: another tool has this name", perdure.Invalid, name))
		return
	case mode == optionalTool: // the tool is already there, without that restriction
		return
	}
	if r.entries == nil {
		r.entries = map[string]entry{}
	}
	r.entries[name] = e
}

// Err returns all refusals as one Invalid error, or nil.
func (r *Registry) Err() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return errors.Join(r.refusals...)
}

// Get returns the tool with a name.
func (r *Registry) Get(name string) (Tool, bool) {
	e, ok := r.entry(name)
	return e.tool, ok
}

func (r *Registry) entry(name string) (entry, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e, ok := r.entries[name]
	return e, ok
}

// Has reports whether there is a tool of this name.
func (r *Registry) Has(name string) bool {
	_, ok := r.entry(name)
	return ok
}

// Optional reports whether sessions must choose the tool (see [Registry.RegisterOptional]).
func (r *Registry) Optional(name string) bool {
	e, _ := r.entry(name)
	return e.optional
}

// Defaults returns the names of the tools that sessions need not choose, in the order of
// registration.
func (r *Registry) Defaults() []string {
	return slices.DeleteFunc(r.Names(), r.Optional)
}

// Len returns the number of tools.
func (r *Registry) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.names)
}

// IsEmpty reports whether there is no tool.
func (r *Registry) IsEmpty() bool { return r.Len() == 0 }

// Names returns the names in the order of registration.
func (r *Registry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.names)
}

// Definitions returns the definitions of all tools in the order of registration.
func (r *Registry) Definitions() []Definition {
	r.mu.RLock()
	defer r.mu.RUnlock()
	definitions := make([]Definition, 0, len(r.names))
	for _, name := range r.names {
		definitions = append(definitions, r.entries[name].definition())
	}
	return definitions
}

// Unregister removes a tool and returns it.
func (r *Registry) Unregister(name string) (Tool, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[name]
	if ok {
		delete(r.entries, name)
		r.names = slices.DeleteFunc(r.names, func(n string) bool { return n == name })
	}
	return e.tool, ok
}

// Clear removes all tools. Refusals remain.
func (r *Registry) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries, r.names = nil, nil
}

// Snapshot returns an independent copy.
func (r *Registry) Snapshot() *Registry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	copied := &Registry{names: slices.Clone(r.names), refusals: slices.Clone(r.refusals), sources: slices.Clone(r.sources), log: r.log}
	copied.entries = make(map[string]entry, len(r.entries))
	for name, e := range r.entries {
		copied.entries[name] = e
	}
	return copied
}
