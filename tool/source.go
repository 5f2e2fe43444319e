package tool

import (
	"context"
	"slices"
	"strings"
)

// Source is a capability whose tools are registered later, for instance because the program that
// has them is still starting.
type Source struct {
	Capability string // of its tools
	Name       string // of the capability, for people
	Prefix     string // of the names of its tools
	// Start starts the source, unless it has started, and returns at once. The channel is closed
	// when the tools are registered, or when this attempt has failed. Safe for concurrent use.
	Start func() (ready <-chan struct{})
}

// Expect adds a source. Its capability can be chosen from now on. A snapshot made before or after
// does not receive its tools.
func (r *Registry) Expect(s Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources = append(r.sources, s)
}

// Expects returns the source of a tool that is registered later, by the tool's name.
func (r *Registry) Expects(name string) (Source, bool) {
	return r.source(func(s Source) bool { return strings.HasPrefix(name, s.Prefix) })
}

// SourceOf returns the source of a capability.
func (r *Registry) SourceOf(capability string) (Source, bool) {
	return r.source(func(s Source) bool { return s.Capability == capability })
}

func (r *Registry) source(is func(Source) bool) (Source, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	i := slices.IndexFunc(r.sources, is)
	if i < 0 {
		return Source{}, false
	}
	return r.sources[i], true
}

func (r *Registry) expected() []Source {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.sources)
}

// Start starts the sources of capabilities and of tools, side by side.
func (r *Registry) Start(capabilities, tools []string) (all []<-chan struct{}) {
	for _, s := range r.expected() {
		of := func(name string) bool { return strings.HasPrefix(name, s.Prefix) }
		if slices.Contains(capabilities, s.Capability) || slices.ContainsFunc(tools, of) {
			all = append(all, s.Start())
		}
	}
	return all
}

// Await starts the sources of capabilities and of tools, and waits until each is ready or has
// failed, or ctx ends.
func (r *Registry) Await(ctx context.Context, capabilities, tools []string) {
	for _, ready := range r.Start(capabilities, tools) {
		select {
		case <-ready:
		case <-ctx.Done():
			return
		}
	}
}
