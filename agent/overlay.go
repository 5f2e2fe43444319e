package agent

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// AllTools among an overlay's tools stands for every tool that the engine has.
const AllTools = "*"

// Overlay is what one layer says: a harness, an agent or a session. The zero value says nothing and changes nothing.
// It may hold no secrets: it stands in the journal of every session that is made of it.
type Overlay struct {
	SystemPrompt      string                `json:"system_prompt,omitempty"`       // follows that of the layer above, after a blank line
	Capabilities      []string              `json:"capabilities,omitempty"`        // by id, added to those above
	Tools             []string              `json:"tools,omitempty"`               // by name, added; AllTools: all of them. None at all: only what the capabilities bring
	InitialFiles      []File                `json:"initial_files,omitempty"`       // written when the session is made; a path again replaces the file above
	NetworkAccess     []perdure.NetworkList `json:"network_access,omitempty"`      // one list a layer, root first; each only narrows (NL2)
	Model             string                `json:"model,omitempty"`               // by the name that the engine knows it by; a layer that names a model replaces the one above, however both say it, and this comes before DefaultModel
	DefaultModel      perdure.ModelID       `json:"default_model_id,omitempty"`    // of a model that is kept; empty, and no Model: that of the layer above (N10)
	MaxIterations     Limit                 `json:"max_iterations,omitzero"`       // reason steps a turn
	ParallelToolCalls *bool                 `json:"parallel_tool_calls,omitempty"` // nil: as above; false: one after another (TN11)
	Background        *bool                 `json:"background,omitempty"`          // nil: as above; false keeps the background set out (TL33)
	SoftBudgetMS      int64                 `json:"soft_budget_ms,omitempty"`      // of tools that name none; 0: as above; -1: they never leave their turn (LN2)
	Limits            Limits                `json:"limits,omitzero"`
	Approvals         Approvals             `json:"approvals,omitzero"`
	Summarise         *bool                 `json:"summarise,omitempty"` // nil: as above (TN23)
	Recovery          perdure.RecoveryMode  `json:"recovery,omitempty"`  // empty: as above (TN20)
	DryRun            bool                  `json:"dry_run,omitempty"`   // once set, it stays (AP13)
	Locale            string                `json:"locale,omitempty"`    // BCP 47; empty: as above
	Timezone          string                `json:"timezone,omitempty"`  // IANA; empty: as above
	Metadata          map[string]string     `json:"metadata,omitempty"`  // the host's own, by key
}

// File is a file that a session begins with (FI10).
type File struct {
	Path       string `json:"path"` // absolute
	Content    string `json:"content"`
	Encoding   string `json:"encoding,omitempty"` // text or base64; empty: text
	IsReadOnly bool   `json:"is_readonly,omitempty"`
}

// Limit is a number that a layer sets, and one that no layer below exceeds. The zero value says nothing.
type Limit struct {
	Value int `json:"value,omitempty"` // 0: as above
	Hard  int `json:"hard,omitempty"`  // 0: none of its own; of several the smallest counts
}

// Limits are the limits of a turn beside its iterations. A smaller number is the tighter one in all of them.
type Limits struct {
	ContextTokens Limit `json:"context_tokens,omitzero"` // estimated, before the context is compacted (TN23)
	ParallelCalls Limit `json:"parallel_calls,omitzero"` // calls of a step at once (TN11)
	Continuations Limit `json:"continuations,omitzero"`  // automatic turns without a person (DL8)
	SealAfter     Limit `json:"seal_after,omitzero"`     // so many calls of a loop seal the turn, at least 3 (TN24)
}

// Approvals says when a person is asked beside what the policies of tools say.
type Approvals struct {
	AskEffects   *bool `json:"ask_effects,omitempty"`   // before every call of a tool that is not pure; nil: as above
	AskUntrusted bool  `json:"ask_untrusted,omitempty"` // once anything from outside was read, before every call that reaches further than the session; no layer below lifts that
	Hard         bool  `json:"hard,omitempty"`          // a person is asked before each of them, and no layer below lifts that
}

// Fold lays overlays over each other, root first. It is associative: Fold(a, Fold(b, c)) and Fold(Fold(a, b), c) are
// Fold(a, b, c), and the zero Overlay changes nothing (N8). What it returns shares nothing with what it was given.
func Fold(overlays ...Overlay) Overlay {
	var folded Overlay
	for _, o := range overlays {
		folded = folded.under(o)
	}
	return folded
}

// under lays a child over the overlay.
func (o Overlay) under(child Overlay) Overlay {
	o.SystemPrompt = strings.Join(slices.DeleteFunc([]string{o.SystemPrompt, child.SystemPrompt}, isEmpty), "\n\n")
	o.Capabilities = together(o.Capabilities, child.Capabilities, itself)
	o.Tools = together(o.Tools, child.Tools, itself)
	o.InitialFiles = together(o.InitialFiles, child.InitialFiles, func(f File) string { return path.Clean(f.Path) })
	o.NetworkAccess = slices.Clone(o.NetworkAccess)
	for _, l := range child.NetworkAccess {
		o.NetworkAccess = append(o.NetworkAccess, perdure.NetworkList{Allowed: slices.Clone(l.Allowed), Blocked: slices.Clone(l.Blocked)})
	}
	if child.Model != "" || child.DefaultModel != "" {
		o.Model, o.DefaultModel = child.Model, child.DefaultModel
	}
	o.MaxIterations = o.MaxIterations.under(child.MaxIterations)
	o.ParallelToolCalls = flag(o.ParallelToolCalls, child.ParallelToolCalls)
	o.Background = flag(o.Background, child.Background)
	o.SoftBudgetMS = orAbove(child.SoftBudgetMS, o.SoftBudgetMS)
	o.Limits = o.Limits.under(child.Limits)
	o.Approvals = Approvals{AskEffects: flag(o.Approvals.AskEffects, child.Approvals.AskEffects), Hard: o.Approvals.Hard || child.Approvals.Hard, AskUntrusted: o.Approvals.AskUntrusted || child.Approvals.AskUntrusted}
	o.Summarise = flag(o.Summarise, child.Summarise)
	o.Recovery = orAbove(child.Recovery, o.Recovery)
	o.DryRun = o.DryRun || child.DryRun
	o.Locale, o.Timezone = orAbove(child.Locale, o.Locale), orAbove(child.Timezone, o.Timezone)
	o.Metadata = maps.Clone(o.Metadata)
	for key, value := range child.Metadata {
		if o.Metadata == nil {
			o.Metadata = map[string]string{}
		}
		o.Metadata[key] = value
	}
	return o
}

func (l Limits) under(child Limits) Limits {
	return Limits{
		ContextTokens: l.ContextTokens.under(child.ContextTokens), ParallelCalls: l.ParallelCalls.under(child.ParallelCalls),
		Continuations: l.Continuations.under(child.Continuations), SealAfter: l.SealAfter.under(child.SealAfter),
	}
}

// under keeps value and ceiling apart, since only so a chain may be folded in any order: a value that is over the
// ceiling is cut where the whole is resolved.
func (l Limit) under(child Limit) Limit {
	hard := child.Hard
	if hard == 0 || l.Hard > 0 && l.Hard < hard {
		hard = l.Hard
	}
	return Limit{Value: orAbove(child.Value, l.Value), Hard: hard}
}

// effective is the number that counts; 0 leaves it to the default, which the ceiling cuts too. A fallback of 0 is no
// limit at all.
func (l Limit) effective(fallback int) int {
	switch {
	case l.Hard == 0 || l.Value > 0 && l.Value <= l.Hard:
		return l.Value
	case l.Value == 0 && fallback > 0 && fallback <= l.Hard:
		return 0
	}
	return l.Hard
}

// check says what is wrong with a limit.
func (l Limit) check(name string) error {
	if l.Value < 0 || l.Hard < 0 {
		return fmt.Errorf("%w %s: %d, at most %d: a limit is at least 1, and 0 is none", perdure.Invalid, name, l.Value, l.Hard)
	}
	return nil
}

// together appends the child's items; one whose key is there takes that place.
func together[T any](above, child []T, key func(T) string) []T {
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

func itself(text string) string { return text }

func isEmpty(text string) bool { return text == "" }

// orAbove is what the child says, or what stands above it where the child says nothing.
func orAbove[T comparable](child, above T) T {
	var nothing T
	if child == nothing {
		return above
	}
	return child
}

// flag is a copy of the child's switch, or of the one above.
func flag(above, child *bool) *bool {
	if child == nil {
		child = above
	}
	if child == nil {
		return nil
	}
	value := *child
	return &value
}
