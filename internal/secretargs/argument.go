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

// fields knows which arguments of a tool are secret.
type fields struct {
	known     map[string]bool // the properties of the schema; true: secret
	hasSecret bool            // at least one is secret
}

func (f fields) isEmpty() bool { return !f.hasSecret }

// fieldsOf reads which properties of a schema are "writeOnly": true. If the keyword occurs at any
// depth inside a property, the whole property is secret. If it occurs outside the properties, for
// example in a definition that a property refers to, all properties are secret.
func fieldsOf(schema json.RawMessage) fields {
	var top map[string]json.RawMessage
	if !bytes.Contains(schema, []byte("writeOnly")) || perdure.DecodeKnownJSON(schema, &top) != nil {
		return fields{}
	}
	var properties map[string]json.RawMessage
	if text, ok := top["properties"]; ok && perdure.DecodeKnownJSON(text, &properties) != nil {
		return fields{}
	}
	f := fields{known: map[string]bool{}}
	elsewhere := false
	for name, text := range top {
		elsewhere = elsewhere || name != "properties" &&
			(name == "writeOnly" && string(text) == "true" || writeOnly(text))
	}
	for name, text := range properties {
		f.known[name] = elsewhere || writeOnly(text)
		f.hasSecret = f.hasSecret || f.known[name]
	}
	f.hasSecret = f.hasSecret || elsewhere
	return f
}

// writeOnly reports whether writeOnly is set anywhere in a schema.
func writeOnly(schema json.RawMessage) bool {
	var any any
	return perdure.DecodeKnownJSON(schema, &any) == nil && saysWriteOnly(any)
}

func saysWriteOnly(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return v["writeOnly"] == true || slices.ContainsFunc(slices.Collect(maps.Values(v)), saysWriteOnly)
	case []any:
		return slices.ContainsFunc(v, saysWriteOnly)
	}
	return false
}

// secret reports whether an argument is secret. An argument that the schema does not know counts as
// secret: the model may have misspelled the name of a secret one.
func (f fields) secret(name string) bool {
	hidden, known := f.known[name]
	return hidden || !known
}

// maxName is the largest length of a plain name.
const maxName = 32

// plainName reports whether a name consists of letters and underscores. Any other name that the
// schema does not know may itself be a secret.
func plainName(name string) bool {
	return name != "" && len(name) <= maxName && strings.Trim(strings.ToLower(name),
		"abcdefghijklmnopqrstuvwxyz_") == ""
}

// shownName returns the name of an unknown argument as it may be recorded.
func shownName(name string) string {
	if plainName(name) {
		return name
	}
	return redact.Mark
}

// mask replaces secret arguments with the mark. Arguments that are not an object are replaced as a
// whole, because it is not known what they contain.
func (f fields) mask(args json.RawMessage) (shown json.RawMessage, some bool) {
	object, ok := objectOf(args)
	if !ok {
		return json.RawMessage(mark), true
	}
	masked := map[string]json.RawMessage{}
	for name, value := range object {
		switch _, known := f.known[name]; {
		case !f.secret(name):
			masked[name] = value
		case known:
			masked[name], some = json.RawMessage(mark), true
		default:
			masked[shownName(name)], some = json.RawMessage(mark), true
		}
	}
	return textOf(masked), some
}

// isMark reports whether a value is the mark, in either spelling.
func isMark(value json.RawMessage) bool {
	return string(value) == mark || string(value) == escapedMark
}

// marked reports whether the mark has replaced a secret argument.
func (f fields) marked(args json.RawMessage) bool {
	object, ok := objectOf(args)
	if !ok {
		return isMark(args)
	}
	for name, text := range object {
		if f.secret(name) && isMark(text) {
			return true
		}
	}
	return false
}

// secrets returns the set of the secret texts; nil: there are none.
func (f fields) secrets(args json.RawMessage) *redact.Set {
	texts := f.texts(args)
	if len(texts) == 0 {
		return nil
	}
	return redact.NewSet(texts...)
}

// texts returns the secret texts.
func (f fields) texts(args json.RawMessage) (texts []string) {
	object, ok := objectOf(args)
	if !ok {
		return loose(string(args), looseDepth)
	}
	for name, value := range object {
		if !f.secret(name) || isMark(value) {
			continue
		}
		if _, known := f.known[name]; !known && !plainName(name) {
			texts = append(texts, name)
		}
		var text string
		if perdure.DecodeJSON(value, &text) == nil {
			texts = append(texts, text)
			continue
		}
		texts = append(append(texts, string(value)), within(value)...)
	}
	return texts
}

// minWithin is the smallest length of a text inside a list or object of secrets that is masked by
// itself. Shorter ones would also match harmless text.
const minWithin = 8

// within returns the texts anywhere inside a list or object of secrets: the error of a tool may
// contain one of them alone.
func within(value json.RawMessage) (texts []string) {
	var decoded any
	if perdure.DecodeKnownJSON(value, &decoded) != nil {
		return nil
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			if len(v) >= minWithin {
				texts = append(texts, v)
			}
		case map[string]any:
			for _, one := range v {
				walk(one)
			}
		case []any:
			for _, one := range v {
				walk(one)
			}
		}
	}
	walk(decoded)
	return texts
}

// How part of a secret is searched for: in pieces of pieceBytes bytes, within its first
// maxReportBytes, because no text repeats more of it.
const (
	pieceBytes     = 8
	maxReportBytes = 1 << 10
)

// leftIn reports whether a part of a secret is left in a text.
func (f fields) leftIn(args json.RawMessage, text string) bool {
	for _, secret := range f.texts(args) {
		secret = secret[:min(len(secret), maxReportBytes)]
		for i := 0; i+pieceBytes <= len(secret); i++ {
			if strings.Contains(text, secret[i:i+pieceBytes]) {
				return true
			}
		}
	}
	return false
}

// fill replaces each mark with the value that was held.
func fill(args, held json.RawMessage) json.RawMessage {
	if len(held) == 0 {
		return args
	}
	object, ok := objectOf(args)
	if isMark(args) || !ok && HasKnownMark(args) {
		return held
	}
	before, had := objectOf(held)
	if !ok || !had {
		return args
	}
	for name := range object {
		if HasKnownMark(name) { // it is not known which name this was
			return held
		}
	}
	if isMark(object[redact.Mark]) { // the mark stands for all hidden names
		delete(object, redact.Mark)
		for name, old := range before {
			if _, there := object[name]; !there && shownName(name) == redact.Mark {
				object[name] = old
			}
		}
	}
	for name, value := range object {
		if old, there := before[name]; there && hides(value) {
			object[name] = old
		}
	}
	return textOf(object)
}

// objectOf reads an object. Not ok: the text is not an object, or has a duplicate key, so that it
// is not known which value counts.
func objectOf(text json.RawMessage) (map[string]json.RawMessage, bool) {
	var object map[string]json.RawMessage
	if perdure.DecodeJSON(text, &object) != nil || object == nil {
		return nil, false
	}
	return object, true
}

// textOf writes an object, sorted by key.
func textOf(object map[string]json.RawMessage) json.RawMessage {
	out := []byte{'{'}
	for i, name := range slices.Sorted(maps.Keys(object)) {
		if i > 0 {
			out = append(out, ',')
		}
		key, _ := json.Marshal(name) // a string always encodes
		out = append(append(append(out, key...), ':'), object[name]...)
	}
	return append(out, '}')
}
