package tool

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/strictjson"
)

// entry is an admitted tool with its spec and its compiled schema.
type entry struct {
	tool     Tool
	spec     Spec
	schema   *schema
	optional bool // sessions must choose it
}

// checkAndCompile checks the spec of a tool and compiles its schema. The error is Invalid and names
// all faults.
func checkAndCompile(t Tool) (entry, error) {
	spec, err := specOf(t)
	if err != nil {
		return entry{}, fmt.Errorf("%w tool: %w", perdure.Invalid, err)
	}
	faults := append(spec.faults(), executorFaults(t, spec)...)
	compiled, err := spec.compile()
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

// compile compiles the schema against which the arguments are checked.
func (s Spec) compile() (*schema, error) {
	if len(s.Checked) == 0 {
		return compile(s.Parameters, objectsOnly)
	}
	var shown map[string]any
	if err := strictjson.Decode(s.Parameters, &shown); err != nil || shown == nil || len(s.Parameters) > maxSchemaBytes {
		return nil, fmt.Errorf("not a JSON object of at most %d bytes", maxSchemaBytes)
	}
	compiled, err := compile(s.Checked, objectsOnly)
	if err == nil {
		compiled.foreign = true
	}
	return compiled, err
}

// specOf returns the spec. A nil tool, or one whose Spec panics, is refused instead of crashing the
// program.
func specOf(t Tool) (spec Spec, err error) {
	if t == nil {
		return Spec{}, fmt.Errorf("nil")
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("its Spec panicked: %v", v)
		}
	}()
	spec = t.Spec()
	if len(spec.Parameters) == 0 {
		spec.Parameters = anyObject
	}
	return spec, nil
}

// faults returns what is wrong with the fields of a spec.
func (s Spec) faults() []string {
	var faults []string
	add := func(wrong bool, text string) {
		if wrong {
			faults = append(faults, text)
		}
	}
	add(!namePattern().MatchString(s.Name), "the name must match "+namePattern().String())
	add(strings.TrimSpace(s.Description) == "", "no description")
	add(!s.Class.Valid(), "no effect class: set Class to perdure.Pure, Idempotent or AtMostOnce")
	add(!slices.Contains([]Policy{"", PolicyAuto, PolicyRequiresApproval, PolicyClientSide}, s.Policy), "unknown policy")
	add(!slices.Contains([]Deferrable{"", DeferAutomatic, DeferNever, DeferAlways}, s.Deferrable), "unknown deferrable")
	add(s.Pays() && s.Class != perdure.AtMostOnce, "with the hint payment, the effect class must be at_most_once")
	add(s.Pays() && s.Hints.CapabilityID == "",
		"with the hint payment, a capability is required: set Hints.CapabilityID")
	add(s.SoftBudget < 0 && s.SoftBudget != Never, "negative soft budget")
	add(s.Deadline < 0, "negative deadline")
	add(s.Stall < 0, "negative stall timeout")
	add(s.SoftBudget > 0 && s.SoftBudget >= s.HardDeadline(), "the soft budget must be below the deadline")
	return faults
}

// Pays reports whether the tool's calls may pay.
func (s Spec) Pays() bool { return s.Hints.Payment != nil && *s.Hints.Payment }

// namePattern matches a tool name.
var namePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) })

// executorFaults checks that the hint for background runs and the executor agree. A foreign
// definition may have only the hint; spawning it is then refused.
func executorFaults(t Tool, s Spec) []string {
	_, runs := t.(Background)
	_, outside := t.(*foreign)
	hint := s.Hints.SupportsBackground
	switch {
	case hint == nil || outside || *hint == runs:
		return nil
	case *hint:
		return []string{"it declares supports_background but has no RunBackground"}
	default:
		return []string{"it has RunBackground but denies supports_background"}
	}
}
