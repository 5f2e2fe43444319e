package chaos

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// sampleDepth limits the nesting of a sample.
const sampleDepth = 8

// schema contains the JSON Schema keywords that a sample needs.
type schema struct {
	Type       any               `json:"type"`
	Enum       []any             `json:"enum"`
	Const      any               `json:"const"`
	Default    any               `json:"default"`
	Minimum    *float64          `json:"minimum"`
	MinLength  int               `json:"minLength"`
	MinItems   int               `json:"minItems"`
	Pattern    string            `json:"pattern"`
	Items      *schema           `json:"items"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
}

// Sample returns arguments that match a schema: its required properties, each with its first
// choice, its minimum or a word. A text is the message of the user, so that no two calls are equal.
// Invalid: a property cannot be guessed, for instance because of a pattern.
func Sample(parameters json.RawMessage) (map[string]any, error) {
	var s schema
	decoder := json.NewDecoder(strings.NewReader(string(parameters))) // a schema has many more keywords
	if err := decoder.Decode(&s); err != nil {
		return nil, fmt.Errorf("%w schema: %w", perdure.Invalid, err)
	}
	value, err := s.sample("", 0)
	if err != nil {
		return nil, err
	}
	args, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%w schema: it does not describe an object", perdure.Invalid)
	}
	return args, nil
}

// sample returns a value; name is its path.
func (s schema) sample(name string, depth int) (any, error) {
	switch {
	case depth > sampleDepth:
		return nil, fmt.Errorf("%w schema: %s is nested too deeply for sample arguments", perdure.Invalid, name)
	case s.Const != nil:
		return s.Const, nil
	case s.Default != nil:
		return s.Default, nil
	case len(s.Enum) > 0:
		return s.Enum[0], nil
	}
	switch s.kind() {
	case "object":
		object := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
			if !slices.Contains(s.Required, key) {
				continue
			}
			value, err := s.Properties[key].sample(name+"/"+key, depth+1)
			if err != nil {
				return nil, err
			}
			object[key] = value
		}
		return object, nil
	case "array":
		list := []any{}
		for range s.MinItems {
			if s.Items == nil {
				break
			}
			value, err := s.Items.sample(name+"/0", depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	case "integer", "number":
		if s.Minimum != nil {
			return *s.Minimum, nil
		}
		return 1, nil
	case "boolean":
		return false, nil
	}
	if s.Pattern != "" {
		return nil, fmt.Errorf("%w schema: no sample for %s, because it has a pattern; use your own agent with --agent",
			perdure.Invalid, name)
	}
	return "{{user}}" + strings.Repeat(".", max(0, s.MinLength-8)), nil
}

// kind returns the type; of several, the first that is not null. Empty: any.
func (s schema) kind() string {
	switch t := s.Type.(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok && name != "null" {
				return name
			}
		}
	}
	if s.Properties != nil {
		return "object"
	}
	return ""
}
