package toolset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/tool"
)

// MaxTools returns how many tools a request of a session to a model may have; 0: no limit is known.
func (s *Toolset) MaxTools(session perdure.SessionID, name string) int {
	if m, ok := s.core.Model.(model.ToolLimiter); ok {
		return m.MaxTools(session, name)
	}
	return 0
}

// Offer returns the tools that a request describes to the model, at most limit of them (0: all), in
// their order, and the part of the system prompt that says how the model reaches the others. Tools
// that the conversation has named come first, with those that it loaded, then the tools of the
// host. The model can call a tool that is not described, too: what it may call does not change.
func (s *Toolset) Offer(tools []tool.Tool, limit int, conversation []perdure.Message) (offered []tool.Tool, prompt string) {
	if limit <= 0 || len(tools) <= limit {
		return tools, ""
	}
	loader := ""
	for _, t := range tools {
		if isLoader(t) {
			loader = t.Spec().Name
		}
	}
	named := namesIn(conversation, loader)
	order := slices.Clone(tools)
	slices.SortStableFunc(order, func(a, b tool.Tool) int { return cmp.Compare(rank(a, named), rank(b, named)) })
	hidden := map[string]int{} // by capability
	for _, t := range order[limit:] {
		hidden[t.Spec().Hints.CapabilityID]++
	}
	for _, capability := range slices.Sorted(maps.Keys(hidden)) {
		if _, again := s.warned.LoadOrStore(fmt.Sprintf("%s/%d", capability, limit), true); !again {
			s.core.Log.Warn("not all tools are described to the model, because its provider takes fewer; "+
				"the model finds the others by search", "capability", capability, "tools", hidden[capability], "limit", limit)
		}
	}
	left := map[string]bool{}
	for _, t := range order[limit:] {
		left[t.Spec().Name] = true
	}
	offered = slices.DeleteFunc(slices.Clone(tools), func(t tool.Tool) bool { return left[t.Spec().Name] })
	if loader == "" {
		return offered, ""
	}
	return offered, hiddenPrompt(loader, order[limit:])
}

// isLoader reports whether a tool finds and loads others.
func isLoader(t tool.Tool) bool { return t.Spec().Hints.CapabilityID == tool.LoadingCapability }

// The ranks of tools that the conversation does not name. A tool that it names has a smaller one.
const (
	rankHost = iota
	rankOther
)

// rank returns the place of a tool among those that are described; the smallest come first.
func rank(t tool.Tool, named []string) int {
	spec := t.Spec()
	if isLoader(t) {
		return -len(named) - 1
	}
	if at := slices.Index(named, spec.Name); at >= 0 {
		return at - len(named)
	}
	if c := spec.Hints.CapabilityID; c == "" || c == tool.BackgroundCapability || spec.Deferrable == tool.DeferNever {
		return rankHost
	}
	return rankOther
}

// namesIn returns the names of the tools that the model called or loaded, the latest first.
func namesIn(conversation []perdure.Message, loader string) (names []string) {
	for _, m := range slices.Backward(conversation) {
		for _, call := range slices.Backward(m.Calls()) {
			name := call.Name
			if name == loader && loader != "" {
				var asked struct {
					Name string `json:"name"`
				}
				if perdure.DecodeKnownJSON(call.Arguments, &asked) != nil {
					continue
				}
				name = asked.Name
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// hiddenPrompt says how the model reaches tools that are not described. It does not depend on what
// was loaded, so that it stays the same for a provider that caches it.
func hiddenPrompt(loader string, left []tool.Tool) string {
	var groups []string
	for _, t := range left {
		hints := t.Spec().Hints
		if name := cmp.Or(hints.CapabilityName, hints.CapabilityID, "the host"); !slices.Contains(groups, name) {
			groups = append(groups, name)
		}
	}
	return "You have more tools than are listed here, among them tools of: " + strings.Join(groups, ", ") + ". Find them with " +
		loader + " and a query, then load one with " + loader + " and its name: it is listed from the next step on."
}
