// Package form prints values of the engine in the forms that a script may ask for: JSON, lines of it, YAML,
// chosen fields, the answers of a jq expression, or a template (C2).
//
// It may import the root, gojq and yaml. The one thing to know: what is printed begins as the JSON that the
// value has anywhere else, so that every form has the same fields.
package form

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

// The outputs.
const (
	Table = "table" // for people; with fields or an expression: lines
	JSON  = "json"
	JSONL = "jsonl"
	YAML  = "yaml"
	Name  = "name" // the id alone; the caller prints it
	None  = "none"
)

// Choice is what was asked for.
type Choice struct {
	Output   string
	Fields   []string // only these of every object; empty: all
	JQ       string   // an expression of jq over the JSON
	Template string   // a template of text/template over the JSON
}

// ForPeople reports whether the caller prints the thing itself, as a table.
func (c Choice) ForPeople() bool { return c.Output == Table && !c.shaped() }

func (c Choice) shaped() bool { return len(c.Fields) > 0 || c.JQ != "" || c.Template != "" }

// Fault is a choice that cannot be printed. It is Invalid.
type Fault struct {
	What string // with the place of the fault, where there is one
	Todo string
}

// Error says what is wrong.
func (f *Fault) Error() string { return f.What }

// Unwrap makes a fault Invalid.
func (f *Fault) Unwrap() error { return perdure.Invalid }

// Check looks at all of a choice that can be judged without a value.
func (c Choice) Check() error {
	switch {
	case c.JQ != "" && c.Template != "":
		return &Fault{What: "--jq and --template can't be used together", Todo: "choose one of them"}
	case c.shaped() && (c.Output == Name || c.Output == None):
		return &Fault{What: "-o " + c.Output + " prints nothing that could be chosen from", Todo: "leave -o out, or name another form"}
	case c.Template != "" && c.Output != Table:
		return &Fault{What: "--template prints text, and -o " + c.Output + " something else", Todo: "leave one of them out"}
	}
	if _, err := c.expression(); err != nil {
		return err
	}
	_, err := c.template()
	return err
}

// Known returns the fields that the JSON of a value has, in their order. A slice has those of its elements, and JSON of somebody
// else, or a map, those that stand in it.
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
		return []string{"v", "id", "seq", "type", "at", "session_id", "actor", "turn_id", "call_id", "task_id", "attempt", "data"}
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return namesOf(t, nil)
}

// namesOf adds the names that the fields of a struct have in JSON, with those of what is embedded. One that Go hides, as it is called
// as another one in Go, has its own name in JSON.
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
func (c Choice) CheckFields(v any) error {
	known := Known(v)
	for _, name := range c.Fields {
		if !slices.Contains(known, name) {
			return &Fault{What: fmt.Sprintf("--json: there is no field %q here", name), Todo: "the fields are " + strings.Join(known, ", ")}
		}
	}
	return nil
}

// Write prints a value, which is a slice if it is a list. The choice was checked.
func (c Choice) Write(ctx context.Context, w io.Writer, v any) error {
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
		value = pick(value, c.Fields)
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

// order is how the fields of an object follow each other.
func (c Choice) order(v any) []string {
	if len(c.Fields) > 0 {
		return c.Fields
	}
	return Known(v)
}

// writeJSON writes a value as it is.
func (c Choice) writeJSON(w io.Writer, v any) error {
	if text, ok := v.(json.RawMessage); ok { // somebody else's JSON
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

// writeOrdered writes objects with their chosen fields, as JSON.
func (c Choice) writeOrdered(w io.Writer, value any) error {
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

// write writes one JSON value: indented, or as a line.
func (c Choice) write(w io.Writer, v any) error {
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

// encode writes JSON and a line end, without the escapes that only HTML minds.
func encode(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return text.Bytes(), nil
}

// object is a JSON object whose fields follow each other as they were asked for.
type object struct {
	value any
	order []string
}

// MarshalJSON writes the fields that are there.
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

// pick leaves only some fields of an object, or of every object of a list.
func pick(value any, names []string) any {
	switch v := value.(type) {
	case []any:
		all := []any{}
		for _, element := range v {
			all = append(all, pick(element, names))
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
