package tool

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/perdure/perdure"
)

// Kind of a definition: who runs the tool.
const (
	TypeBuiltin    = "builtin"
	TypeClientSide = "client_side"
)

// Definition is what a tool is to everybody outside: models, clients, documents (1.4). It is made from a
// Spec, field by field (TL8).
type Definition struct {
	Type              string          `json:"type"`
	Name              string          `json:"name"`
	DisplayName       string          `json:"display_name,omitempty"`
	Category          string          `json:"category,omitempty"` // never set from a Spec
	Description       string          `json:"description"`
	Parameters        json.RawMessage `json:"parameters"`
	FullParameters    json.RawMessage `json:"full_parameters,omitempty"` // the whole schema, where Parameters was shortened (TL37)
	OutputSchema      json.RawMessage `json:"output_schema,omitempty"`
	Policy            Policy          `json:"policy"`
	Deferrable        Deferrable      `json:"deferrable"`
	Hints             DefinitionHints `json:"hints"`
	SoftBudgetSeconds float64         `json:"soft_budget"` // 0: never detaches
	DeadlineSeconds   float64         `json:"deadline"`
	StallSeconds      float64         `json:"stall,omitempty"` // absent: no stall timeout
}

// DefinitionHints are the hints with the two classes that bind the runtime beside them (O7).
type DefinitionHints struct {
	Hints
	Concurrency string              `json:"concurrency_class,omitempty"`
	Class       perdure.EffectClass `json:"effect_class"`
}

// DefinitionOf makes the definition of a tool.
func DefinitionOf(t Tool) Definition {
	spec := t.Spec()
	if len(spec.Parameters) == 0 {
		spec.Parameters = []byte(`{"type":"object"}`)
	}
	return entry{tool: t, spec: spec}.definition()
}

func (e entry) definition() Definition {
	s := e.spec
	d := Definition{
		Type:              TypeBuiltin,
		Name:              s.Name,
		DisplayName:       s.DisplayName,
		Description:       s.Description,
		Parameters:        s.Parameters,
		OutputSchema:      s.OutputSchema,
		Policy:            orText(s.Policy, PolicyAuto),
		Deferrable:        orText(s.Deferrable, DeferAutomatic),
		Hints:             DefinitionHints{Hints: s.Hints, Concurrency: s.Concurrency, Class: s.Class},
		SoftBudgetSeconds: s.softBudget().Seconds(),
		DeadlineSeconds:   s.HardDeadline().Seconds(),
		StallSeconds:      s.Stall.Seconds(),
	}
	if s.Policy == PolicyClientSide {
		d.Type = TypeClientSide
	}
	if _, runs := e.tool.(Background); runs {
		d.Hints.SupportsBackground = &runs
	}
	return d
}

// LoadingCapability marks the tool that tells a model the schemas it was not told (TL37). Hosts register it once;
// a session sees it when something is deferred there.
const LoadingCapability = "deferred_tools"

// The capabilities of the tools between agents: what starts a subagent, and what only a subagent is shown.
const (
	AgentsCapability = "subagents"
	ParentCapability = "subagent_parent"
)

// deferredNote ends the description of a tool whose schema a model was not told.
const deferredNote = "\n\nIts arguments are not listed here: call load_tool with this tool's name first."

// Shortened is the definition as a model is told of it before it asked for the schema: the whole one stands in
// FullParameters, and arguments are always checked against that (TL37).
func (d Definition) Shortened() Definition {
	if len(d.FullParameters) == 0 {
		d.FullParameters = d.Parameters
	}
	d.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	d.Description += deferredNote
	return d
}

// softBudget is the soft budget in effect; 0 never detaches, as in JSON.
func (s Spec) softBudget() time.Duration {
	switch s.SoftBudget {
	case 0:
		return DefaultSoftBudget
	case Never:
		return 0
	}
	return s.SoftBudget
}

// HardDeadline is how long one execution may last whose call does not name a time ([Timed]): the tool's own word, or else
// DefaultDeadline (LN4).
func (s Spec) HardDeadline() time.Duration {
	if s.Deadline == 0 {
		return DefaultDeadline
	}
	return s.Deadline
}

// Timed is a tool whose calls may say themselves how long they may last.
type Timed interface {
	Tool
	// Deadline is how long one execution of a call with these arguments may last: the time that they name, and what the tool needs
	// to end at it. 0: they name none, and the Spec says it. It may be asked in every lane, and again; the arguments are valid.
	Deadline(args json.RawMessage) time.Duration
}

// DeadlineOf is how long one execution of a call of a tool may last: what the call names, or else the Spec's hard deadline (LN4).
func DeadlineOf(t Tool, args json.RawMessage) time.Duration {
	if timed, ok := t.(Timed); ok {
		if named := timed.Deadline(args); named > 0 {
			return named
		}
	}
	return t.Spec().HardDeadline()
}

// Sees reports whether the session may see the tool of a name (TL23). The registry may hold more.
func (e Env) Sees(name string) bool {
	return e.Registry != nil && e.Registry.Has(name) && (e.Visible == nil || slices.Contains(e.Visible, name))
}

// VisibleDefinitions returns the definitions of the tools that the session may see, in the order of
// registration. A tool that looks into the registry shows these and no others (TL23).
func (e Env) VisibleDefinitions() []Definition {
	if e.Registry == nil {
		return nil
	}
	return slices.DeleteFunc(e.Registry.Definitions(), func(d Definition) bool {
		return e.Visible != nil && !slices.Contains(e.Visible, d.Name)
	})
}

func orText[T ~string](s, fallback T) T {
	if s != "" {
		return s
	}
	return fallback
}
