package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/perdure/perdure/internal/strictjson"
)

// derivation is the schema of a Go type for arguments, with its defaults.
type derivation struct {
	text     json.RawMessage
	defaults defaults
}

// deriveInput derives the schema of arguments. It adjusts the library's result: pointers are
// optional, and null is not accepted anywhere.
func deriveInput(t reflect.Type) (derivation, error) {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: wireTypes()})
	if err != nil {
		return derivation{}, fmt.Errorf("derive schema: %w", err)
	}
	if err := adjustSchema(t, s, input); err != nil {
		return derivation{}, fmt.Errorf("derive schema: %w", err)
	}
	text, err := encode(s)
	if err != nil {
		return derivation{}, fmt.Errorf("derive schema: %w", err)
	}
	d := derivation{text: text}
	if hasDefaults(s) {
		d.defaults.schema = s
	}
	return d, nil
}

// deriveOutput derives the schema of results. It is empty for types that have none, such as Result,
// an interface or a recursive type.
func deriveOutput(t reflect.Type) json.RawMessage {
	if t == reflect.TypeFor[Result]() || t.Kind() == reflect.Interface {
		return nil
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: wireTypes()})
	if err != nil || adjustSchema(t, s, output) != nil {
		return nil
	}
	text, err := encode(s)
	if err != nil {
		return nil
	}
	return text
}

// wireTypes are the types whose JSON differs from what their Go kind suggests.
func wireTypes() map[reflect.Type]*jsonschema.Schema {
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.Number]():     {Type: "number"},
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64"},
	}
}

// direction says whether a schema is for input or for output.
type direction int

const (
	input direction = iota
	output
)

// adjustSchema adjusts a derived schema to its type and applies our tags.
func adjustSchema(t reflect.Type, s *jsonschema.Schema, to direction) error {
	if s == nil {
		return nil
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if to == input {
		refuseNull(s)
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return adjustSchema(t.Elem(), s.Items, to)
	case reflect.Map:
		return adjustSchema(t.Elem(), s.AdditionalProperties, to)
	case reflect.Struct:
		return adjustFields(t, s, to)
	}
	return nil
}

func refuseNull(s *jsonschema.Schema) {
	types := slices.DeleteFunc(slices.Clone(s.Types), func(t string) bool { return t == "null" })
	if len(types) == 1 {
		s.Type, s.Types = types[0], nil
	}
}

func adjustFields(t reflect.Type, s *jsonschema.Schema, to direction) error {
	for _, field := range reflect.VisibleFields(t) {
		name := jsonName(field)
		property := s.Properties[name]
		if field.Anonymous || property == nil {
			continue
		}
		if err := adjustSchema(field.Type, property, to); err != nil {
			return err
		}
		if err := annotate(property, field.Tag); err != nil {
			return fmt.Errorf("field %s.%s: %w", t, field.Name, err)
		}
		if to == input && (field.Type.Kind() == reflect.Pointer || property.Default != nil) {
			s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
		}
	}
	return nil
}

// jsonName returns the name of a field in encoding/json.
func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "" {
		return field.Name
	}
	return name
}

// annotate applies the tags of a field.
func annotate(s *jsonschema.Schema, tag reflect.StructTag) error {
	items := s
	if s.Items != nil {
		items = s.Items
	}
	number := s.Type == "integer" || s.Type == "number"
	for _, keyword := range []struct {
		name  string
		fits  bool
		apply func(text string) error
	}{
		{"enum", items.Type != "", func(text string) error { return setEnum(items, text) }},
		{"min", number, setNumber(&s.Minimum)},
		{"max", number, setNumber(&s.Maximum)},
		{"pattern", s.Type == "string", func(text string) (err error) {
			s.Pattern = text
			_, _, err = compilePattern(text)
			return err
		}},
		{"minLength", s.Type == "string", setCount(&s.MinLength)},
		{"maxLength", s.Type == "string", setCount(&s.MaxLength)},
		{"minItems", s.Items != nil, setCount(&s.MinItems)},
		{"maxItems", s.Items != nil, setCount(&s.MaxItems)},
		{"default", true, func(text string) error { return setDefault(s, text) }},
	} {
		text, ok := tag.Lookup(keyword.name)
		if !ok {
			continue
		}
		if !keyword.fits {
			return fmt.Errorf("the tag %s does not fit the type", keyword.name)
		}
		if err := keyword.apply(text); err != nil {
			return fmt.Errorf("the tag %s: %w", keyword.name, err)
		}
	}
	return nil
}

func setNumber(to **float64) func(string) error {
	return func(text string) error {
		n, err := strconv.ParseFloat(text, 64)
		if err == nil && !json.Valid([]byte(text)) {
			err = fmt.Errorf("%q is not a JSON number", text)
		}
		*to = &n
		return err
	}
}

func setCount(to **int) func(string) error {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		if err == nil && n < 0 {
			err = fmt.Errorf("%d is negative", n)
		}
		*to = &n
		return err
	}
}

func setEnum(s *jsonschema.Schema, text string) error {
	s.Enum = nil
	for value := range strings.SplitSeq(text, ",") {
		switch s.Type {
		case "string":
			s.Enum = append(s.Enum, value)
		case "integer", "number":
			if _, err := strconv.ParseInt(value, 10, 64); err != nil && s.Type == "integer" {
				return err
			}
			if _, err := strconv.ParseFloat(value, 64); err != nil || !json.Valid([]byte(value)) {
				return fmt.Errorf("%q is not a JSON number", value)
			}
			s.Enum = append(s.Enum, json.Number(value))
		default:
			return fmt.Errorf("a %s cannot have an enum", s.Type)
		}
	}
	return nil
}

func setDefault(s *jsonschema.Schema, text string) error {
	value := json.RawMessage(text)
	if s.Type == "string" {
		value, _ = encode(text) // a string always encodes
	}
	value, err := strictjson.Canonical(value)
	if err != nil || strings.TrimSpace(text) == "" && s.Type != "string" {
		return fmt.Errorf("%q is not JSON", text)
	}
	own, err := encode(s)
	if err != nil {
		return err
	}
	compiled, err := compile(own, anyValue)
	if err != nil {
		return err
	}
	if faults := compiled.check(value); len(faults) > 0 {
		return fmt.Errorf("%s does not match its own schema: %s", text, faults[0].text)
	}
	s.Default = value
	return nil
}

// defaults fills in absent properties. The zero value fills in nothing.
type defaults struct{ schema *jsonschema.Schema }

// into returns the arguments with their defaults.
func (d defaults) into(args []byte) ([]byte, error) {
	if d.schema == nil {
		return args, nil
	}
	value, err := validator.UnmarshalJSON(bytes.NewReader(args)) // keeps numbers exact
	if err != nil {
		return nil, err
	}
	fill(d.schema, value)
	return encode(value)
}

func fill(s *jsonschema.Schema, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, property := range s.Properties {
			child, there := v[name]
			switch {
			case there:
				fill(property, child)
			case property.Default != nil:
				v[name] = property.Default
			}
		}
	case []any:
		if s.Items == nil {
			return
		}
		for _, item := range v {
			fill(s.Items, item)
		}
	}
}

func hasDefaults(s *jsonschema.Schema) bool {
	if s == nil {
		return false
	}
	return s.Default != nil || hasDefaults(s.Items) ||
		slices.ContainsFunc(slices.Collect(maps.Values(s.Properties)), hasDefaults)
}
