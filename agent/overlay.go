package agent

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// AllTools in an overlay's tools means every tool of the engine.
const AllTools = "*"

// Overlay is the configuration of one layer: a harness, an agent or a session. The zero value
// changes nothing. An overlay must not contain secrets, because it is recorded in the journal of
// every session that uses it.
type Overlay struct {
	// Description says what the agent is for, to people and to models that may start it as a
	// subagent. It is the layer's own: sessions do not have it. At most 1,024 bytes.
	Description  string   `json:"description,omitempty"`
	SystemPrompt string   `json:"system_prompt,omitempty"` // appended to the prompt of the layer above
	Capabilities []string `json:"capabilities,omitempty"`  // ids, added to those above
	// Tools are names that are added to those above. AllTools: every tool. If no layer has any,
	// there are only the tools of the capabilities.
	Tools []string `json:"tools,omitempty"`
	// InitialFiles are written when the session is created. A path replaces the same path above.
	InitialFiles []File `json:"initial_files,omitempty"`
	// NetworkAccess has one list for each layer, root first. Each one only narrows those above.
	NetworkAccess []perdure.NetworkList `json:"network_access,omitempty"`
	// Model is the name by which the engine knows the model. It wins over DefaultModel. A layer
	// that sets either of them replaces both of the layer above.
	Model string `json:"model,omitempty"`
	// DefaultModel is the id of a stored model. Empty, with an empty Model: as in the layer above.
	DefaultModel      perdure.ModelID `json:"default_model_id,omitempty"`
	MaxIterations     Limit           `json:"max_iterations,omitzero"`       // reason steps in a turn
	ParallelToolCalls *bool           `json:"parallel_tool_calls,omitempty"` // nil: as above; false: one after another
	Background        *bool           `json:"background,omitempty"`          // nil: as above; false: no such tools
	// SoftBudgetMS is for tools that do not set a soft budget. 0: as above; -1: calls never detach.
	SoftBudgetMS int64     `json:"soft_budget_ms,omitempty"`
	Limits       Limits    `json:"limits,omitzero"`
	Approvals    Approvals `json:"approvals,omitzero"`
	// Permissions are rules that are added to those above; of several that match, the most
	// restrictive decides.
	Permissions []perdure.PermissionRule `json:"permissions,omitempty"`
	// AwaitConnections pauses a call that needs an account which is not connected, until it is;
	// nil: as above.
	AwaitConnections *bool                `json:"await_connections,omitempty"`
	Summarise        *bool                `json:"summarise,omitempty"` // nil: as above
	Recovery         perdure.RecoveryMode `json:"recovery,omitempty"`  // empty: as above
	DryRun           bool                 `json:"dry_run,omitempty"`   // true in any layer: true
	Locale           string               `json:"locale,omitempty"`    // BCP 47; empty: as above
	Timezone         string               `json:"timezone,omitempty"`  // IANA; empty: as above
	Metadata         map[string]string    `json:"metadata,omitempty"`  // of the host, merged by key
}

// File is a file that exists when a session starts.
type File struct {
	Path       string `json:"path"` // absolute
	Content    string `json:"content"`
	Encoding   string `json:"encoding,omitempty"` // text or base64; empty: text
	IsReadOnly bool   `json:"is_readonly,omitempty"`
}

// Limit is a value that a layer sets, and a ceiling for the values of all layers. The zero value
// sets neither.
type Limit struct {
	Value int `json:"value,omitempty"` // 0: as above
	Hard  int `json:"hard,omitempty"`  // 0: no ceiling in this layer; the lowest of several counts
}

// Limits are the limits of a turn in addition to its iterations. In all of them a lower number is
// stricter.
type Limits struct {
	ContextTokens Limit `json:"context_tokens,omitzero"` // estimated; a larger context is compacted
	ParallelCalls Limit `json:"parallel_calls,omitzero"` // calls of a step at once
	Continuations Limit `json:"continuations,omitzero"`  // automatic turns in a row
	SealAfter     Limit `json:"seal_after,omitzero"`     // identical calls that seal the turn, at least 3
	// AgentLimits tighten limits of the engine. No layer below can raise one.
	perdure.AgentLimits
}

// Approvals says when an approval is needed in addition to the tools' policies.
type Approvals struct {
	AskEffects *bool `json:"ask_effects,omitempty"` // before every call of a tool that is not pure; nil: as above
	// AskUntrusted: once the context has untrusted content, before every call that reaches outside
	// the session. No layer below can turn it off.
	AskUntrusted bool `json:"ask_untrusted,omitempty"`
	// Hard: before every call of a tool that is not pure. No layer below can turn it off.
	Hard bool `json:"hard,omitempty"`
}

// Fold combines overlays, root first. It is associative: Fold(a, Fold(b, c)) and Fold(Fold(a, b),
// c) equal Fold(a, b, c), and the zero Overlay changes nothing. The result shares no memory with
// the arguments.
func Fold(overlays ...Overlay) Overlay {
	var folded Overlay
	for _, o := range overlays {
		folded = folded.with(o)
	}
	return folded
}

// with applies a child on top of the overlay.
func (o Overlay) with(child Overlay) Overlay {
	o.Description = childOr(child.Description, o.Description)
	o.SystemPrompt = strings.Join(slices.DeleteFunc([]string{o.SystemPrompt, child.SystemPrompt}, isEmpty), "\n\n")
	o.Capabilities = mergeByKey(o.Capabilities, child.Capabilities, identity)
	o.Tools = mergeByKey(o.Tools, child.Tools, identity)
	o.InitialFiles = mergeByKey(o.InitialFiles, child.InitialFiles, func(f File) string { return path.Clean(f.Path) })
	o.NetworkAccess = slices.Clone(o.NetworkAccess)
	for _, l := range child.NetworkAccess {
		o.NetworkAccess = append(o.NetworkAccess, perdure.NetworkList{Allowed: slices.Clone(l.Allowed), Blocked: slices.Clone(l.Blocked)})
	}
	if child.Model != "" || child.DefaultModel != "" {
		o.Model, o.DefaultModel = child.Model, child.DefaultModel
	}
	o.MaxIterations = o.MaxIterations.with(child.MaxIterations)
	o.ParallelToolCalls = copyFlag(o.ParallelToolCalls, child.ParallelToolCalls)
	o.Background = copyFlag(o.Background, child.Background)
	o.SoftBudgetMS = childOr(child.SoftBudgetMS, o.SoftBudgetMS)
	o.Limits = o.Limits.with(child.Limits)
	o.Approvals = Approvals{AskEffects: copyFlag(o.Approvals.AskEffects, child.Approvals.AskEffects), Hard: o.Approvals.Hard || child.Approvals.Hard, AskUntrusted: o.Approvals.AskUntrusted || child.Approvals.AskUntrusted}
	o.Permissions = mergeByKey(o.Permissions, child.Permissions, func(r perdure.PermissionRule) perdure.PermissionRule { return r })
	o.AwaitConnections = copyFlag(o.AwaitConnections, child.AwaitConnections)
	o.Summarise = copyFlag(o.Summarise, child.Summarise)
	o.Recovery = childOr(child.Recovery, o.Recovery)
	o.DryRun = o.DryRun || child.DryRun
	o.Locale, o.Timezone = childOr(child.Locale, o.Locale), childOr(child.Timezone, o.Timezone)
	o.Metadata = maps.Clone(o.Metadata)
	for key, value := range child.Metadata {
		if o.Metadata == nil {
			o.Metadata = map[string]string{}
		}
		o.Metadata[key] = value
	}
	return o
}

func (l Limits) with(child Limits) Limits {
	return Limits{
		ContextTokens: l.ContextTokens.with(child.ContextTokens), ParallelCalls: l.ParallelCalls.with(child.ParallelCalls),
		Continuations: l.Continuations.with(child.Continuations), SealAfter: l.SealAfter.with(child.SealAfter),
		AgentLimits: l.AgentLimits.Tighten(child.AgentLimits),
	}
}

// with keeps value and ceiling apart, so that a chain can be folded in any grouping. Resolve
// applies the ceiling to the value at the end.
func (l Limit) with(child Limit) Limit {
	hard := child.Hard
	if hard == 0 || l.Hard > 0 && l.Hard < hard {
		hard = l.Hard
	}
	return Limit{Value: childOr(child.Value, l.Value), Hard: hard}
}

// effective returns the value that applies. 0 means the default, unless the default exceeds the
// ceiling. A fallback of 0 means that there is no default limit.
func (l Limit) effective(fallback int) int {
	switch {
	case l.Hard == 0 || l.Value > 0 && l.Value <= l.Hard:
		return l.Value
	case l.Value == 0 && fallback > 0 && fallback <= l.Hard:
		return 0
	}
	return l.Hard
}

// check returns an Invalid error if the limit is wrong.
func (l Limit) check(name string) error {
	if l.Value < 0 || l.Hard < 0 {
		return fmt.Errorf("%w %s: %d, at most %d: a limit must be at least 1, or 0 for none",
			perdure.Invalid, name, l.Value, l.Hard)
	}
	return nil
}

// mergeByKey appends the child's items. An item replaces an earlier one with the same key.
func mergeByKey[T any, K comparable](above, child []T, key func(T) K) []T {
	above = slices.Clone(above)
	for _, item := range child {
		same := func(other T) bool { return key(other) == key(item) }
		if i := slices.IndexFunc(above, same); i >= 0 {
			above[i] = item
			continue
		}
		above = append(above, item)
	}
	return above
}

func identity(text string) string { return text }

func isEmpty(text string) bool { return text == "" }

// childOr returns the child's value, or the one above if the child has none.
func childOr[T comparable](child, above T) T {
	var zero T
	if child == zero {
		return above
	}
	return child
}

// copyFlag returns a copy of the child's value, or of the one above if the child has none.
func copyFlag(above, child *bool) *bool {
	if child == nil {
		child = above
	}
	if child == nil {
		return nil
	}
	value := *child
	return &value
}
