package veil

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
)

// fields says which arguments of a tool are secret.
type fields struct {
	known map[string]bool // the properties; true: it is secret
	some  bool            // one is
}

func (f fields) none() bool { return !f.some }

// fieldsOf reads which properties of a schema are "writeOnly": true, at any depth: then the whole property is secret. Where
// the word stands outside of a property, as in a definition that one refers to, all of them are.
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
		elsewhere = elsewhere || name != "properties" && (name == "writeOnly" && string(text) == "true" || writeOnly(text))
	}
	for name, text := range properties {
		f.known[name] = elsewhere || writeOnly(text)
		f.some = f.some || f.known[name]
	}
	f.some = f.some || elsewhere
	return f
}

// writeOnly reports whether a schema says so somewhere.
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

// secret reports whether an argument is. One that the schema does not know is too: it may be a secret whose name the model
// got wrong.
func (f fields) secret(name string) bool {
	hidden, known := f.known[name]
	return hidden || !known
}

// maxName is how many letters a name has at most.
const maxName = 32

// plainName reports whether a name looks like one: letters, and what joins them. Any other one that no schema knows may be a
// secret itself.
func plainName(name string) bool {
	return name != "" && len(name) <= maxName && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz_") == ""
}

// shownName is the name of an argument that no schema knows, as it may be told.
func shownName(name string) string {
	if plainName(name) {
		return name
	}
	return redact.Mark
}

// mask puts the mark in the place of what is secret. Arguments that are no object are one mark: nobody can say what is where.
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

// isMark reports whether the mark stands in the place of a value, however it is written.
func isMark(value json.RawMessage) bool {
	return string(value) == mark || string(value) == escapedMark
}

// marked reports whether the mark stands in the place of a secret.
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

// secrets are the texts of what is secret, for masking; nil: there are none.
func (f fields) secrets(args json.RawMessage) *redact.Set {
	texts := f.texts(args)
	if len(texts) == 0 {
		return nil
	}
	return redact.NewSet(texts...)
}

// texts are what is secret.
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

// minWithin is how many bytes a text in a list or object of secrets has, to be looked for by itself: shorter ones stand in other
// texts, too.
const minWithin = 8

// within are the texts somewhere in a list or object of secrets: a tool that fails may say one of them alone.
func within(value json.RawMessage) (texts []string) {
	var whole any
	if perdure.DecodeKnownJSON(value, &whole) != nil {
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
	walk(whole)
	return texts
}

// How a part of a secret is looked for: in pieces of so many bytes, and where it begins, since no text tells more of it.
const (
	pieceBytes = 8
	toldBytes  = 1 << 10
)

// leftIn reports whether a part of what is secret stands in a text.
func (f fields) leftIn(args json.RawMessage, text string) bool {
	for _, secret := range f.texts(args) {
		secret = secret[:min(len(secret), toldBytes)]
		for i := 0; i+pieceBytes <= len(secret); i++ {
			if strings.Contains(text, secret[i:i+pieceBytes]) {
				return true
			}
		}
	}
	return false
}

// fill puts what was held in the place of each mark.
func fill(args, held json.RawMessage) json.RawMessage {
	if len(held) == 0 {
		return args
	}
	object, ok := objectOf(args)
	if isMark(args) || !ok && Stands(args) {
		return held
	}
	before, had := objectOf(held)
	if !ok || !had {
		return args
	}
	for name := range object {
		if Stands(name) { // nobody knows which it was
			return held
		}
	}
	if isMark(object[redact.Mark]) { // for all whose names are hidden, too
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

// objectOf reads an object. Not ok: the text is none, or has a key twice, and then nobody can say which counts.
func objectOf(text json.RawMessage) (map[string]json.RawMessage, bool) {
	var object map[string]json.RawMessage
	if perdure.DecodeJSON(text, &object) != nil || object == nil {
		return nil, false
	}
	return object, true
}

// textOf writes an object, by its keys.
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
