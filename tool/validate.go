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

	"github.com/perdure/perdure/internal/strictjson"
)

// The limits of the report about arguments.
const (
	maxFaults     = 20   // in a report
	maxFaultBytes = 300  // of a path, and of a text
	maxCollected  = 1000 // faults that are collected
	maxListed     = 20   // enum values that are listed
)

// SelfValidating is a tool that reports faults of its arguments with its own texts, as
// spawn_background does. The runtime does not call [Registry.Validate] for its calls; the tool
// calls it for the faults that it has no texts for.
type SelfValidating interface {
	Tool
	// ValidatesItself reports whether the tool does that.
	ValidatesItself() bool
}

// fault is a fault of arguments.
type fault struct {
	path string // JSON pointer; "/" is the whole value
	text string
}

// Validate checks arguments before anything else happens to a call. nil: they are valid. Otherwise
// it returns the result of a call that never started: the arguments are not a JSON object, are cut
// off, contain a duplicate key, or do not match the schema. It reports all faults, up to 20, in the
// order of their paths. Values are not converted. Empty arguments count as {}. An unknown tool name
// is refused, too.
func (r *Registry) Validate(name string, args json.RawMessage) *Result {
	e, ok := r.entry(name)
	if !ok {
		return refusal("Tool definition not found: " + name)
	}
	canonical, err := strictjson.Canonical(args)
	if err != nil {
		return refusal(faultText(name, []fault{{"/", jsonFaultText(err)}}))
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

// CheckJSON returns what is wrong with a value according to a JSON Schema; empty: nothing. An
// unusable schema accepts everything.
func CheckJSON(schemaText, value json.RawMessage) string {
	schema, err := compile(schemaText, anyValue)
	if err != nil {
		return ""
	}
	canonical, err := strictjson.Canonical(value)
	if err != nil {
		return jsonFaultText(err)
	}
	var texts []string
	for _, f := range schema.check(canonical) {
		texts = append(texts, clip(f.path, maxFaultBytes)+": "+clip(f.text, maxFaultBytes))
	}
	return strings.Join(texts[:min(len(texts), maxFaults)], "; ")
}

// CheckSchema returns why a text is not a usable JSON Schema; empty: it is. References to the
// network are refused.
func CheckSchema(schemaText json.RawMessage) string {
	if _, err := compile(schemaText, anyValue); err != nil {
		return clip(err.Error(), maxFaultBytes)
	}
	return ""
}

// decoder is a typed tool. Its arguments must also fit the Go type, for instance without an integer
// overflow.
type decoder interface {
	decodes(canonical []byte) []fault
}

func refusal(text string) *Result {
	result := Error(text)
	result.Refused = true
	return &result
}

// jsonFaultText returns the fault of text that is not JSON. The place is part of the text, because
// arguments that do not parse have no places of their own.
func jsonFaultText(err error) string { return clip(err.Error(), maxFaultBytes) }

// faultText joins the faults in the order of their paths, without duplicates.
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
		return []fault{{"/", jsonFaultText(err)}}
	}
	if number := outOfRangeNumber(value); number != "" {
		return []fault{{"/", "number out of range: " + number}}
	}
	err = s.validate(value)
	var found *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &found) && !(s.foreign && isCyclic(found)):
		return collect(found, nil)
	case s.foreign: // it cannot be checked here
		return nil
	default:
		return []fault{{"/", err.Error()}}
	}
}

// isCyclic reports whether a check ended because references lead back to themselves.
func isCyclic(e *jsonschema.ValidationError) bool {
	_, cyclic := e.ErrorKind.(*kind.RefCycle)
	return cyclic || slices.ContainsFunc(e.Causes, isCyclic)
}

// collect flattens an error of the validator into faults that a model can fix: one for each missing
// or unknown property, and the innermost faults of everything else.
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
	case *kind.PropertyNames: // the validator overwrites its location later
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

// kindText returns the text of a fault. The library's own texts group digits (1,000), so limits
// have texts here.
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

// libraryText returns the validator's text for a fault, without its causes.
func libraryText(e *jsonschema.ValidationError) string {
	alone := *e
	alone.Causes = nil
	return alone.BasicOutput().Error.String()
}

// decimal formats a number for people.
func decimal(r *big.Rat) string {
	if r.IsInt() {
		return clip(r.Num().String(), maxFaultBytes)
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// pointer returns a JSON pointer (RFC 6901), except that the whole value is "/".
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
