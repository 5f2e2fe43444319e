package secretargs

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
)

// MaskOrder returns an order for a run of another tool as it may be recorded, and reports whether
// it differs from the request; nil: the order cannot be parsed and is masked as a whole. own is the
// schema of the tool that takes orders; target finds the schema of a tool that an order may name.
// secrets are the masked texts, to be masked elsewhere too.
//
// Arguments that the order's own schema does not know are masked, keeping their JSON type so that
// the refusal stays accurate. So are the arguments for a tool that does not exist. Nothing that was
// masked is held: such an order normally never runs, and if it does, it runs without the value.
func MaskOrder(own, args json.RawMessage,
	target func(name string) (json.RawMessage, bool)) (shown json.RawMessage, secrets *redact.Set, some bool) {
	if text := bytes.TrimSpace(args); len(text) == 0 || string(text) == "null" {
		return args, nil, false
	}
	fields, ok := objectOf(args)
	form := shapeOf(own)
	name, orders, readable := form.ordered(fields)
	if !ok || !readable {
		return nil, setOf(loose(string(args), looseDepth), target), true
	}
	var texts []string
	var schema json.RawMessage
	there := false
	if orders {
		schema, there = target(strings.TrimSpace(name))
	}
	hidden := map[string]json.RawMessage{}
	for key, value := range fields {
		switch sub, known := form.known[key]; {
		case orders && key == "args":
			hidden[key] = hideArgs(value, schema, there, &texts)
		case known:
			hidden[key] = sub.hide(value, &texts)
		default:
			hidden[shownName(key)] = like(value)
			texts = append(append(texts, spelled(key, value)...), loose(string(value), looseDepth)...)
		}
	}
	secrets = setOf(texts, target)
	v := New(nil, secrets)
	for key, value := range hidden {
		if key != "args" && !(key == "tool" && there) {
			hidden[key] = v.JSON(value)
		}
	}
	if maps.EqualFunc(fields, hidden, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		return args, secrets, false
	}
	return textOf(hidden), secrets, true
}

// hideArgs masks the arguments of an order that the target's schema declares secret; all of them,
// if there is no such tool.
func hideArgs(args, schema json.RawMessage, there bool, texts *[]string) json.RawMessage {
	if !there {
		*texts = append(*texts, loose(string(args), looseDepth)...)
		return like(args)
	}
	f := fieldsOf(schema)
	if f.isEmpty() {
		return args
	}
	*texts = append(*texts, f.texts(args)...)
	shown, some := f.mask(args)
	if !some {
		return args
	}
	return shown
}

// spelled returns the texts of an unknown argument, however short: its value, and its name if that
// is not plain.
func spelled(name string, value json.RawMessage) (texts []string) {
	if !plainName(name) {
		texts = append(texts, name)
	}
	var text string
	if perdure.DecodeJSON(value, &text) == nil {
		texts = append(texts, text)
	}
	return texts
}

// AllTexts returns every text that may be secret in arguments without a known schema; nil: none.
func AllTexts(args json.RawMessage) *redact.Set { return setOf(loose(string(args), looseDepth), nil) }

// IsMasked reports whether the arguments of an order are masked because the tool is unknown.
func IsMasked(args json.RawMessage) bool {
	object, ok := objectOf(args)
	return ok && isMark(object[redact.Mark])
}

// setOf returns a set of texts without the names of tools; nil: there are none.
func setOf(texts []string, target func(string) (json.RawMessage, bool)) *redact.Set {
	texts = slices.DeleteFunc(texts, func(text string) bool {
		if target == nil {
			return text == ""
		}
		_, there := target(text)
		return there || text == ""
	})
	if len(texts) == 0 {
		return nil
	}
	slices.Sort(texts)
	return redact.NewSet(slices.Compact(texts)...)
}

// shape is the part of a schema that matters here: the allowed types and the properties.
type shape struct {
	kinds []string         // nil: any
	known map[string]shape // nil: any
}

func shapeOf(schema json.RawMessage) shape {
	var any any
	if perdure.DecodeKnownJSON(schema, &any) != nil {
		return shape{}
	}
	return shapeIn(any)
}

func shapeIn(schema any) (s shape) {
	object, ok := schema.(map[string]any)
	if !ok {
		return s
	}
	switch kinds := object["type"].(type) {
	case string:
		s.kinds = []string{kinds}
	case []any:
		for _, kind := range kinds {
			if text, ok := kind.(string); ok {
				s.kinds = append(s.kinds, text)
			}
		}
	}
	if properties, ok := object["properties"].(map[string]any); ok {
		s.known = map[string]shape{}
		for name, sub := range properties {
			s.known[name] = shapeIn(sub)
		}
	}
	return s
}

// ordered returns the tool that an order names. Not orders: the schema has no such properties, or
// the order leaves them empty. Not readable: the name of the tool is not a string.
func (s shape) ordered(fields map[string]json.RawMessage) (name string, orders, readable bool) {
	_, tools := s.known["tool"]
	_, takes := s.known["args"]
	if !tools || !takes || fields["tool"] == nil && fields["args"] == nil {
		return "", false, true
	}
	ok := perdure.DecodeJSON(fields["tool"], &name) == nil
	return name, true, ok
}

// hide masks the parts of a value that its schema does not allow, and collects their texts.
func (s shape) hide(value json.RawMessage, texts *[]string) json.RawMessage {
	switch {
	case !s.takes(value):
		*texts = append(*texts, loose(string(value), looseDepth)...)
		return like(value)
	case s.known == nil:
		return value
	}
	fields, ok := objectOf(value)
	if !ok {
		return value
	}
	changed := false
	for _, name := range slices.Collect(maps.Keys(fields)) {
		old := fields[name]
		if sub, known := s.known[name]; known {
			fields[name] = sub.hide(old, texts)
			changed = changed || !bytes.Equal(old, fields[name])
			continue
		}
		*texts = append(append(*texts, spelled(name, old)...), loose(string(old), looseDepth)...)
		delete(fields, name)
		fields[shownName(name)], changed = like(old), true
	}
	if !changed {
		return value
	}
	return textOf(fields)
}

// takes reports whether the schema allows the type of a value.
func (s shape) takes(value json.RawMessage) bool {
	if s.kinds == nil {
		return true
	}
	kind := kindOf(value)
	return slices.Contains(s.kinds, kind) || kind == "number" && slices.Contains(s.kinds, "integer")
}

// kindOf returns the JSON type of a value.
func kindOf(value json.RawMessage) string {
	switch value = bytes.TrimSpace(value); {
	case len(value) == 0, value[0] == 'n':
		return "null"
	case value[0] == '{':
		return "object"
	case value[0] == '[':
		return "array"
	case value[0] == '"':
		return "string"
	case value[0] == 't', value[0] == 'f':
		return "boolean"
	}
	return "number"
}

// like returns a replacement of the same JSON type, so that validation reports the same error.
func like(value json.RawMessage) json.RawMessage {
	switch kindOf(value) {
	case "object":
		if object, ok := objectOf(value); ok && len(object) == 0 {
			return value
		}
		return json.RawMessage(`{` + mark + `:` + mark + `}`)
	case "array":
		return json.RawMessage(`[` + mark + `]`)
	case "string":
		return json.RawMessage(mark)
	case "number":
		return json.RawMessage("0")
	}
	return value
}

// looseDepth limits how deeply JSON inside JSON strings is searched.
const looseDepth = 3

// loose returns the strings and long numbers in arguments of unknown structure, whether they are
// valid JSON or not. Object keys that look like names are left out.
func loose(text string, depth int) (texts []string) {
	for i := 0; i < len(text); {
		end := i + 1
		switch c := text[i]; {
		case c == '"':
			for ; end < len(text) && text[end] != '"'; end++ {
				if text[end] == '\\' {
					end++
				}
			}
			end = min(end, len(text))
			unescaped, rest := unquoted(text[i+1:end]), text[min(end+1, len(text)):]
			name := strings.HasPrefix(strings.TrimLeft(rest, " \t\r\n"), ":") && plainName(unescaped)
			if !name && len(unescaped) >= minWithin {
				texts = append(texts, unescaped)
			}
			if !name && depth > 0 && strings.ContainsAny(unescaped, `{["`) {
				texts = append(texts, loose(unescaped, depth-1)...)
			}
			end++
		case c >= '0' && c <= '9':
			for end < len(text) && strings.IndexByte("0123456789.eE+-", text[end]) >= 0 {
				end++
			}
			if end-i >= minWithin {
				texts = append(texts, text[i:end])
			}
		}
		i = end
	}
	return texts
}

// unquoted unescapes the inside of a JSON string; text that is not valid JSON is returned as it is.
func unquoted(text string) string {
	var unescaped string
	if perdure.DecodeKnownJSON([]byte(`"`+text+`"`), &unescaped) != nil {
		return text
	}
	return unescaped
}
