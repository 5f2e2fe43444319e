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

// Registry holds tools by name, in the order of registration (TL19), so that prompts are stable. A tool that
// breaks the contract is refused: it is not in the registry, and [Registry.Err] says why. The zero value is
// empty. Safe for concurrent use; a step works on a [Registry.Snapshot].
type Registry struct {
	mu       sync.RWMutex // guards all below
	entries  map[string]entry
	names    []string
	refusals []error
	log      *slog.Logger // nil: slog.Default
}

// NewRegistry returns a registry of the given tools. The same tool twice is one tool; two tools that share a
// name and differ are a refusal, and the first one stays.
func NewRegistry(tools ...Tool) *Registry {
	r := &Registry{}
	for _, t := range tools {
		r.add(t, mine)
	}
	return r
}

// what a tool is added as
type as int

const (
	mine        as = iota // the first of its name stays
	replacement           // it stands for one of its name
	offer                 // as mine, and it must be chosen
)

// Builder collects tools for a registry. The zero value is empty, and each step returns a new value.
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

// LogTo says where panics are logged with their stacks. nil: slog.Default.
func (r *Registry) LogTo(log *slog.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = log
}

// Register adds a tool. One of the same name is replaced and keeps its place; a refused tool replaces nothing.
// It need not be chosen, also where the one that it replaces had to be.
func (r *Registry) Register(t Tool) { r.add(t, replacement) }

// Offer adds tools that are in no defaults (TL30): a session that names no tools does not have them, until it chooses their
// capability or names them. Else it is as [NewRegistry] with them.
func (r *Registry) Offer(tools ...Tool) {
	for _, t := range tools {
		r.add(t, offer)
	}
}

func (r *Registry) add(t Tool, how as) {
	e, err := admit(t)
	e.offered = how == offer
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.refusals = append(r.refusals, err)
		return
	}
	name := e.spec.Name
	old, taken := r.entries[name]
	switch {
	case !taken:
		r.names = append(r.names, name)
	case how != replacement && !reflect.DeepEqual(old.spec, e.spec):
		r.refusals = append(r.refusals, fmt.Errorf("%w tool %q: another tool has this name", perdure.Invalid, name))
		return
	case how == offer: // it is there, with no less
		return
	}
	if r.entries == nil {
		r.entries = map[string]entry{}
	}
	r.entries[name] = e
}

// Err returns all refusals since the registry was made, joined; errors.Is tells perdure.Invalid. nil: none.
func (r *Registry) Err() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return errors.Join(r.refusals...)
}

// Get returns the tool of a name.
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

// Offered reports whether the tool of this name must be chosen (see [Registry.Offer]).
func (r *Registry) Offered(name string) bool {
	e, _ := r.entry(name)
	return e.offered
}

// Defaults returns the names of the tools that need not be chosen, in the order of registration.
func (r *Registry) Defaults() []string {
	return slices.DeleteFunc(r.Names(), r.Offered)
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

// Unregister removes a tool and returns what was there.
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

// Clear removes all tools. Refusals stay.
func (r *Registry) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries, r.names = nil, nil
}

// Snapshot returns a copy that later changes of r do not reach.
func (r *Registry) Snapshot() *Registry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	copied := &Registry{names: slices.Clone(r.names), refusals: slices.Clone(r.refusals), log: r.log}
	copied.entries = make(map[string]entry, len(r.entries))
	for name, e := range r.entries {
		copied.entries[name] = e
	}
	return copied
}
