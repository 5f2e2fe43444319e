package tool

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure"
)

// entry is a tool that was admitted, with its spec and its compiled schema.
type entry struct {
	tool    Tool
	spec    Spec
	schema  *schema
	offered bool // it must be chosen (TL30)
}

// admit checks what a tool says of itself and compiles its schema. The error is Invalid and names all faults.
func admit(t Tool) (entry, error) {
	spec, err := specOf(t)
	if err != nil {
		return entry{}, fmt.Errorf("%w tool: %w", perdure.Invalid, err)
	}
	faults := append(spec.faults(), executorFaults(t, spec)...)
	compiled, err := compile(spec.Parameters, objectsOnly)
	if err != nil {
		faults = append(faults, "parameters: "+err.Error())
	}
	if len(spec.OutputSchema) > 0 {
		if _, err := compile(spec.OutputSchema, anyValue); err != nil {
			faults = append(faults, "output schema: "+err.Error())
		}
	}
	if len(faults) > 0 {
		return entry{}, fmt.Errorf("%w tool %q: %s", perdure.Invalid, spec.Name, strings.Join(faults, "; "))
	}
	return entry{tool: t, spec: spec, schema: compiled}, nil
}

// specOf reads the spec. A tool that is nil, or panics over its own spec, is a refusal and no crash.
func specOf(t Tool) (spec Spec, err error) {
	if t == nil {
		return Spec{}, fmt.Errorf("nil")
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("its Spec panics: %v", v)
		}
	}()
	spec = t.Spec()
	if len(spec.Parameters) == 0 {
		spec.Parameters = []byte(`{"type":"object"}`)
	}
	return spec, nil
}

// faults returns what is wrong with the plain fields of a spec.
func (s Spec) faults() []string {
	var faults []string
	add := func(wrong bool, text string) {
		if wrong {
			faults = append(faults, text)
		}
	}
	add(!nameForm().MatchString(s.Name), "the name must match "+nameForm().String())
	add(strings.TrimSpace(s.Description) == "", "no description")
	add(!s.Class.Valid(), "no effect class: set Class to perdure.Pure, Idempotent or AtMostOnce (TL10)")
	add(!slices.Contains([]Policy{"", PolicyAuto, PolicyRequiresApproval, PolicyClientSide}, s.Policy), "unknown policy")
	add(!slices.Contains([]Deferrable{"", DeferAutomatic, DeferNever, DeferAlways}, s.Deferrable), "unknown deferrable")
	add(s.Pays() && s.Class != perdure.AtMostOnce, "it has the hint payment, so its class is at_most_once (PA2)")
	add(s.Pays() && s.Hints.CapabilityID == "", "it has the hint payment and names no capability to pay for: set Hints.CapabilityID (PA1)")
	add(s.SoftBudget < 0 && s.SoftBudget != Never, "negative soft budget")
	add(s.Deadline < 0, "negative deadline")
	add(s.Stall < 0, "negative stall timeout")
	add(s.SoftBudget > 0 && s.SoftBudget >= s.HardDeadline(), "the soft budget is not below the deadline (ER7)")
	return faults
}

// Pays reports whether the tool's calls may pay.
func (s Spec) Pays() bool { return s.Hints.Payment != nil && *s.Hints.Payment }

// nameForm is what a tool may be called.
var nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) })

// executorFaults wants the hint for background runs and the executor to agree. A foreign definition may
// declare the hint alone, and gets the text of chapter 8 when it is spawned (TL2, BG2).
func executorFaults(t Tool, s Spec) []string {
	_, runs := t.(Background)
	_, outside := t.(*foreign)
	hint := s.Hints.SupportsBackground
	switch {
	case hint == nil || outside || *hint == runs:
		return nil
	case *hint:
		return []string{"it declares supports_background and has no RunBackground"}
	default:
		return []string{"it has RunBackground and denies supports_background"}
	}
}
