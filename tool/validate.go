package tool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/perdure/perdure"
)

// The limits of what is said of arguments.
const (
	maxFaults     = 20   // TL22
	maxFaultBytes = 300  // of a path, and of a text
	maxCollected  = 1000 // faults that are looked at
	maxListed     = 20   // values of an enum that are named
)

// SelfValidating is a tool that words faults of its arguments itself, as spawn_background does (TL22, 8.1).
// Whoever runs its calls does not ask [Registry.Validate] first; the tool asks it for the faults that it has
// no words for.
type SelfValidating interface {
	Tool
	// ValidatesItself reports whether that is so.
	ValidatesItself() bool
}

// fault is one thing that is wrong with arguments.
type fault struct {
	path string // JSON pointer; "/" is the whole
	text string
}

// Validate checks arguments before anything else happens to a call (TL22). nil: they are fine. Otherwise it
// returns the result of a call that was never started: they are no JSON object, are cut off, repeat a key,
// or break the schema. All faults are told, up to 20, in the order of their paths. Nothing is coerced. Empty
// arguments count as {}. An unknown name is refused too.
func (r *Registry) Validate(name string, args json.RawMessage) *Result {
	e, ok := r.entry(name)
	if !ok {
		return refusal("Tool definition not found: " + name)
	}
	canonical, err := perdure.CanonicalJSON(args)
	if err != nil {
		return refusal(faultText(name, []fault{{"/", jsonFault(err)}}))
	}
	faults := e.schema.check(canonical)
	if typed, ok := e.tool.(decoder); ok && len(faults) == 0 {
		faults = typed.decodes(canonical)
	}
	if len(faults) == 0 {
		return nil
	}
	return refusal(faultText(name, faults))
}

// CheckJSON returns what is wrong with a value against a JSON Schema; empty: nothing. A schema that cannot be read asks
// for nothing.
func CheckJSON(schemaText, value json.RawMessage) string {
	schema, err := compile(schemaText, anyValue)
	if err != nil {
		return ""
	}
	canonical, err := perdure.CanonicalJSON(value)
	if err != nil {
		return jsonFault(err)
	}
	var texts []string
	for _, f := range schema.check(canonical) {
		texts = append(texts, clip(f.path, maxFaultBytes)+": "+clip(f.text, maxFaultBytes))
	}
	return strings.Join(texts[:min(len(texts), maxFaults)], "; ")
}

// CheckSchema says what keeps a text from being a JSON Schema; empty: it is one. A reference to the network is refused.
func CheckSchema(schemaText json.RawMessage) string {
	if _, err := compile(schemaText, anyValue); err != nil {
		return clip(err.Error(), maxFaultBytes)
	}
	return ""
}

// decoder is a typed tool: its arguments must also fit the Go type, so that an integer does not overflow (TL25).
type decoder interface {
	decodes(canonical []byte) []fault
}

func refusal(text string) *Result {
	result := Error(text)
	result.Refused = true
	return &result
}

// jsonFault words what is wrong with text that is no JSON. The place stands in the text: arguments that
// cannot be read have no places of their own.
func jsonFault(err error) string { return clip(err.Error(), maxFaultBytes) }

// faultText joins the faults in the order of their paths, each once.
func faultText(name string, faults []fault) string {
	for i, f := range faults {
		faults[i] = fault{clip(f.path, maxFaultBytes), clip(f.text, maxFaultBytes)}
	}
	slices.SortFunc(faults, func(a, b fault) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.text, b.text))
	})
	faults = slices.Compact(faults)
	var texts []string
	for _, f := range faults[:min(len(faults), maxFaults)] {
		texts = append(texts, f.path+": "+f.text)
	}
	return "Invalid arguments for " + name + ": " + strings.Join(texts, "; ")
}

// check returns the faults of canonical arguments against the schema.
func (s *schema) check(canonical []byte) []fault {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(canonical))
	if err != nil {
		return []fault{{"/", jsonFault(err)}}
	}
	if number := immoderate(value); number != "" {
		return []fault{{"/", "number out of range: " + number}}
	}
	err = s.validate(value)
	var found *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &found):
		return collect(found, nil)
	default:
		return []fault{{"/", err.Error()}}
	}
}

// collect flattens an error of the validator to what a model can mend: one fault for each missing or
// unknown property, and the innermost faults of everything else.
func collect(e *jsonschema.ValidationError, faults []fault) []fault {
	if len(faults) >= maxCollected {
		return faults
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			faults = append(faults, fault{pointer(e.InstanceLocation, name), "is required"})
		}
		return faults
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			faults = append(faults, fault{pointer(e.InstanceLocation, name), "unknown property"})
		}
		return faults
	case *kind.PropertyNames: // its location is one that the validator goes on to overwrite
		return append(faults, fault{"/", fmt.Sprintf("the property name %q is not allowed", k.Property)})
	case *kind.Contains, *kind.MinContains: // their causes are the items that do not match
		return append(faults, fault{pointer(e.InstanceLocation), libraryText(e)})
	}
	if len(e.Causes) == 0 {
		return append(faults, fault{pointer(e.InstanceLocation), kindText(e)})
	}
	for _, cause := range e.Causes {
		faults = collect(cause, faults)
	}
	return faults
}

// kindText words one fault. The library's own words group digits (1,000), so limits are worded here.
func kindText(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Minimum:
		return fmt.Sprintf("got %s, want at least %s", decimal(k.Got), decimal(k.Want))
	case *kind.Maximum:
		return fmt.Sprintf("got %s, want at most %s", decimal(k.Got), decimal(k.Want))
	case *kind.ExclusiveMinimum:
		return fmt.Sprintf("got %s, want more than %s", decimal(k.Got), decimal(k.Want))
	case *kind.ExclusiveMaximum:
		return fmt.Sprintf("got %s, want less than %s", decimal(k.Got), decimal(k.Want))
	case *kind.MultipleOf:
		return fmt.Sprintf("got %s, want a multiple of %s", decimal(k.Got), decimal(k.Want))
	case *kind.MinLength:
		return fmt.Sprintf("got %d characters, want at least %d", k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("got %d characters, want at most %d", k.Got, k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("got %d items, want at least %d", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("got %d items, want at most %d", k.Got, k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("got %d properties, want at least %d", k.Got, k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("got %d properties, want at most %d", k.Got, k.Want)
	case *kind.Pattern:
		return fmt.Sprintf("does not match the pattern %s", k.Want)
	case *kind.Enum:
		if more := len(k.Want) - maxListed; more > 0 {
			listed := *e
			listed.ErrorKind = &kind.Enum{Got: k.Got, Want: k.Want[:maxListed]}
			return fmt.Sprintf("%s or %d others", libraryText(&listed), more)
		}
		return libraryText(e)
	case *kind.FalseSchema:
		return "is not allowed"
	default:
		return libraryText(e)
	}
}

// libraryText is the validator's own wording of one fault, without its causes.
func libraryText(e *jsonschema.ValidationError) string {
	alone := *e
	alone.Causes = nil
	return alone.BasicOutput().Error.String()
}

// decimal writes a number as people do.
func decimal(r *big.Rat) string {
	if r.IsInt() {
		return clip(r.Num().String(), maxFaultBytes)
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// pointer writes a place as a JSON pointer (RFC 6901), except that the whole is "/".
func pointer(location []string, more ...string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var out strings.Builder
	for _, token := range append(slices.Clone(location), more...) {
		out.WriteString("/" + escape.Replace(token))
	}
	if out.Len() == 0 {
		return "/"
	}
	return out.String()
}
