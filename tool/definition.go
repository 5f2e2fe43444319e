package tool

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/perdure/perdure"
)

// The types of a definition: where the tool runs.
const (
	TypeBuiltin    = "builtin"
	TypeClientSide = "client_side"
)

// Definition describes a tool to models, clients and documents. It is made from a Spec.
type Definition struct {
	Type              string          `json:"type"`
	Name              string          `json:"name"`
	DisplayName       string          `json:"display_name,omitempty"`
	Category          string          `json:"category,omitempty"` // never set from a Spec
	Description       string          `json:"description"`
	Parameters        json.RawMessage `json:"parameters"`
	FullParameters    json.RawMessage `json:"full_parameters,omitempty"` // the full schema, if Parameters was shortened
	OutputSchema      json.RawMessage `json:"output_schema,omitempty"`
	Policy            Policy          `json:"policy"`
	Deferrable        Deferrable      `json:"deferrable"`
	Hints             DefinitionHints `json:"hints"`
	SoftBudgetSeconds float64         `json:"soft_budget"` // 0: never detaches
	DeadlineSeconds   float64         `json:"deadline"`
	StallSeconds      float64         `json:"stall,omitempty"` // absent: no stall timeout
}

// DefinitionHints are the hints together with the two classes that bind the runtime.
type DefinitionHints struct {
	Hints
	Concurrency string              `json:"concurrency_class,omitempty"`
	Class       perdure.EffectClass `json:"effect_class"`
}

// DefinitionOf returns the definition of a tool.
func DefinitionOf(t Tool) Definition {
	spec := t.Spec()
	if len(spec.Parameters) == 0 {
		spec.Parameters = anyObject
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

// LoadingCapability is the capability of the tool that returns deferred schemas to the model. Hosts
// register the tool once; a session has it while some schema is deferred.
const LoadingCapability = "deferred_tools"

// The capabilities of the tools between agents: AgentsCapability starts subagents, and only
// subagents have ParentCapability.
const (
	AgentsCapability = "subagents"
	ParentCapability = "subagent_parent"
)

// deferredNote is appended to the description of a tool whose schema is deferred.
const deferredNote = "\n\nIts arguments are not listed here: call load_tool with this tool's name first."

// Shortened returns the definition with a deferred schema. FullParameters has the full one, and
// arguments are always checked against it.
func (d Definition) Shortened() Definition {
	if len(d.FullParameters) == 0 {
		d.FullParameters = d.Parameters
	}
	d.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	d.Description += deferredNote
	return d
}

// softBudget returns the effective soft budget; 0 means never, as in JSON.
func (s Spec) softBudget() time.Duration {
	switch s.SoftBudget {
	case 0:
		return DefaultSoftBudget
	case Never:
		return 0
	}
	return s.SoftBudget
}

// HardDeadline returns the time limit of an execution for calls that do not set one ([Timed]): the
// Spec's, or DefaultDeadline.
func (s Spec) HardDeadline() time.Duration {
	if s.Deadline == 0 {
		return DefaultDeadline
	}
	return s.Deadline
}

// Timed is a tool whose calls can set their own time limit.
type Timed interface {
	Tool
	// Deadline returns the time limit of an execution with these arguments: the time that they set,
	// plus what the tool needs to end in time. 0: they set none, and the Spec's applies. The
	// arguments are valid. It may be called in every lane and more than once.
	Deadline(args json.RawMessage) time.Duration
}

// DeadlineOf returns the time limit of an execution: the one that the call sets, or the Spec's, or
// DefaultDeadline.
func DeadlineOf(t Tool, args json.RawMessage) time.Duration {
	return DeadlineWith(t, args, DefaultDeadline)
}

// DeadlineWith is DeadlineOf with another default, for an engine that has one.
func DeadlineWith(t Tool, args json.RawMessage, fallback time.Duration) time.Duration {
	if timed, ok := t.(Timed); ok {
		if limit := timed.Deadline(args); limit > 0 {
			return limit
		}
	}
	return cmp.Or(t.Spec().Deadline, fallback)
}

// CanSee reports whether the session can use the tool. The registry may hold more tools.
func (e Env) CanSee(name string) bool {
	return e.Registry != nil && e.Registry.Has(name) && (e.Visible == nil || slices.Contains(e.Visible, name))
}

// VisibleDefinitions returns the definitions of the tools that the session can use, in the order of
// registration. A tool that inspects the registry must show only these.
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
