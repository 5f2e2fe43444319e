// Package output prints values of the engine in the formats for scripts: JSON, JSON lines, YAML,
// selected fields, the result of a jq expression, or a template.
//
// It may import the root, gojq and yaml. The one thing to know: every format starts from the JSON
// encoding of the value, so that all formats have the same fields.
package output

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// The output formats.
const (
	Table = "table" // for people; with fields or an expression: lines
	JSON  = "json"
	JSONL = "jsonl"
	YAML  = "yaml"
	Name  = "name" // the id only; the caller prints it
	None  = "none"
)

// Options is a requested format.
type Options struct {
	Output   string
	Fields   []string // only these fields of every object; empty: all
	JQ       string   // a jq expression on the JSON
	Template string   // a template of text/template on the JSON
}

// IsTable reports whether the caller prints the value itself, as a table.
func (c Options) IsTable() bool { return c.Output == Table && !c.hasExpression() }

func (c Options) hasExpression() bool { return len(c.Fields) > 0 || c.JQ != "" || c.Template != "" }

// UsageError is a choice that cannot be printed. It is Invalid.
type UsageError struct {
	Message string // with the position of the error, where there is one
	Hint    string
}

// Error returns what is wrong.
func (f *UsageError) Error() string { return f.Message }

// Unwrap returns perdure.Invalid.
func (f *UsageError) Unwrap() error { return perdure.Invalid }

// Check checks everything that does not depend on the value.
func (c Options) Check() error {
	switch {
	case c.JQ != "" && c.Template != "":
		return &UsageError{Message: "--jq and --template can't be used together", Hint: "choose one of them"}
	case c.hasExpression() && (c.Output == Name || c.Output == None):
		return &UsageError{Message: "-o " + c.Output + " prints nothing to select from",
			Hint: "remove -o, or choose another format"}
	case c.Template != "" && c.Output != Table:
		return &UsageError{Message: "--template prints text, which -o " + c.Output + " cannot format",
			Hint: "remove one of them"}
	}
	if _, err := c.expression(); err != nil {
		return err
	}
	_, err := c.template()
	return err
}

// Known returns the JSON field names of a value, in order. For a slice they are those of its
// elements; for a map or raw JSON they are those it contains.
func Known(v any) []string {
	if fields, ok := v.(map[string]any); ok {
		return slices.Sorted(maps.Keys(fields))
	}
	if text, ok := v.(json.RawMessage); ok {
		var fields map[string]json.RawMessage
		if perdure.DecodeKnownJSON(text, &fields) != nil {
			return nil
		}
		return slices.Sorted(maps.Keys(fields))
	}
	t := reflect.TypeOf(v)
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[perdure.Event]() {
		return []string{"v", "id", "seq", "type", "at", "session_id", "actor", "turn_id", "call_id", "task_id",
			"attempt", "data"}
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return namesOf(t, nil)
}

// namesOf adds the JSON names of a struct's fields, including embedded ones. A field that Go hides
// because another one has the same Go name still has its own JSON name.
func namesOf(t reflect.Type, names []string) []string {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch inner := field.Type; {
		case field.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			names = namesOf(inner, names)
		case field.Anonymous && name == "" && inner.Kind() == reflect.Pointer && inner.Elem().Kind() == reflect.Struct:
			names = namesOf(inner.Elem(), names)
		case name != "" && name != "-" && !slices.Contains(names, name):
			names = append(names, name)
		}
	}
	return names
}

// CheckFields refuses fields that a value does not have.
func (c Options) CheckFields(v any) error {
	known := Known(v)
	for _, name := range c.Fields {
		if !slices.Contains(known, name) {
			return &UsageError{Message: fmt.Sprintf("--json: unknown field %q", name),
				Hint: "the fields are " + strings.Join(known, ", ")}
		}
	}
	return nil
}

// Write prints a value, or a list if it is a slice. Check must have succeeded.
func (c Options) Write(ctx context.Context, w io.Writer, v any) error {
	if err := c.CheckFields(v); err != nil {
		return err
	}
	if c.Output == None {
		return nil
	}
	text, err := encode(v)
	if err != nil {
		return err
	}
	value, err := decode(ctx, text)
	if err != nil {
		return err
	}
	if len(c.Fields) > 0 {
		value = selectFields(value, c.Fields)
	}
	switch order := c.order(v); {
	case c.JQ != "":
		return c.writeAnswers(ctx, w, value)
	case c.Template != "":
		return c.writeText(w, value)
	case c.Output == YAML:
		return writeYAML(w, value, order)
	case len(c.Fields) > 0:
		return c.writeOrdered(w, value)
	}
	return c.writeJSON(w, v)
}

// order returns the order of the fields of an object.
func (c Options) order(v any) []string {
	if len(c.Fields) > 0 {
		return c.Fields
	}
	return Known(v)
}

// writeJSON writes a value unchanged.
func (c Options) writeJSON(w io.Writer, v any) error {
	if text, ok := v.(json.RawMessage); ok { // JSON from another source
		var all []json.RawMessage
		if c.Output != JSONL || perdure.DecodeKnownJSON(text, &all) != nil {
			return c.write(w, v)
		}
		v = all
	}
	list := reflect.ValueOf(v)
	if c.Output != JSONL || list.Kind() != reflect.Slice {
		return c.write(w, v)
	}
	for i := range list.Len() {
		if err := c.write(w, list.Index(i).Interface()); err != nil {
			return err
		}
	}
	return nil
}

// writeOrdered writes objects with their selected fields, as JSON.
func (c Options) writeOrdered(w io.Writer, value any) error {
	list, isList := value.([]any)
	if !isList {
		return c.write(w, object{value, c.Fields})
	}
	objects := []object{}
	for _, element := range list {
		objects = append(objects, object{element, c.Fields})
	}
	return c.writeJSON(w, objects)
}

// write writes one JSON value: indented, or on one line.
func (c Options) write(w io.Writer, v any) error {
	text, err := encode(v)
	if err != nil {
		return err
	}
	if c.Output != JSONL {
		var indented bytes.Buffer
		if err := json.Indent(&indented, text, "", "  "); err != nil {
			return fmt.Errorf("indent JSON: %w", err)
		}
		text = indented.Bytes()
	}
	_, err = w.Write(text)
	return err
}

// encode returns JSON and a newline, without HTML escapes.
func encode(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return text.Bytes(), nil
}

// object is a JSON object with a given order of fields.
type object struct {
	value any
	order []string
}

// MarshalJSON writes the fields that exist.
func (o object) MarshalJSON() ([]byte, error) {
	fields, ok := o.value.(map[string]any)
	if !ok {
		return encode(o.value)
	}
	var text bytes.Buffer
	text.WriteByte('{')
	for _, name := range o.order {
		value, ok := fields[name]
		if !ok {
			continue
		}
		if text.Len() > 1 {
			text.WriteByte(',')
		}
		part, err := encode(value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&text, "%q:%s", name, part)
	}
	text.WriteByte('}')
	return text.Bytes(), nil
}

// selectFields reduces an object, or every object of a list, to some fields.
func selectFields(value any, names []string) any {
	switch v := value.(type) {
	case []any:
		all := []any{}
		for _, element := range v {
			all = append(all, selectFields(element, names))
		}
		return all
	case map[string]any:
		chosen := map[string]any{}
		for _, name := range names {
			if field, ok := v[name]; ok {
				chosen[name] = field
			}
		}
		return chosen
	}
	return value
}
