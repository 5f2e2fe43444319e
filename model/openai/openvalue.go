package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// maxEntries bounds the entries of a list in a field. No provider sends so many, and each one costs
// time with every further piece.
const maxEntries = 1000

// minRepeated is the length from which a text that repeats everything before it is a repetition.
// Shorter texts, such as two equal words, can follow each other.
const minRepeated = 4

// openValue is a JSON value that arrives in pieces, as the values of streaming fields do:
//
//	texts                   are joined, unless a text names something, or repeats all of it
//	objects                 are joined field by field
//	lists                   are joined entry by entry: an entry continues the one with its index, or,
//	                        without an index, the last one while that is not signed
//	other values            replace the earlier one; null adds nothing
//	a value of another kind replaces what was there
//
// The zero value is empty.
type openValue struct {
	kind    byte // the first character of a text, an object or a list; 0: another value, or none
	text    strings.Builder
	chars   charBuffer // a character may arrive in two pieces
	fields  map[string]*openValue
	entries []*openValue
	other   json.RawMessage
	tooLong bool
}

// labels are fields of an object that name or number something. They may be repeated in each piece.
const labels names = "index type id format name role status object"

// add adds a piece, which is valid JSON.
func (v *openValue) add(piece json.RawMessage) {
	switch text := strings.TrimSpace(string(piece)); {
	case text == "" || text == "null":
	case text[0] == '"':
		v.start('"')
		v.addText(piece)
	case text[0] == '{':
		v.start('{')
		var fields map[string]json.RawMessage
		if perdure.DecodeKnownJSON(piece, &fields) == nil {
			v.addFields(fields)
		}
	case text[0] == '[':
		v.start('[')
		var entries []json.RawMessage
		if perdure.DecodeKnownJSON(piece, &entries) == nil {
			for _, entry := range entries {
				v.addEntry(entry)
			}
		}
	default:
		v.start(0)
		v.other = json.RawMessage(text)
	}
}

// start prepares for a piece of a kind.
func (v *openValue) start(kind byte) {
	if v.kind != kind {
		*v = openValue{kind: kind}
	}
}

func (v *openValue) addText(piece json.RawMessage) {
	var text string
	if perdure.DecodeKnownJSON(piece, &text) != nil {
		return
	}
	if len(text) >= minRepeated && len(text) == v.text.Len() && text == v.text.String() {
		return
	}
	v.text.WriteString(v.chars.add(decodeBroken(text)))
}

func (v *openValue) addFields(fields map[string]json.RawMessage) {
	if v.fields == nil {
		v.fields = map[string]*openValue{}
	}
	for name, piece := range fields {
		old := v.fields[name]
		switch {
		case old == nil:
			v.fields[name] = &openValue{}
		case labels.has(name) && string(piece) != "null" && !old.isEmpty():
			continue
		}
		v.fields[name].add(piece)
	}
}

// addEntry adds a piece of an entry to the entry that it continues, or as a new one.
func (v *openValue) addEntry(piece json.RawMessage) {
	var next struct {
		Index json.RawMessage `json:"index"`
		Type  string          `json:"type"`
		ID    string          `json:"id"`
	}
	if !strings.HasPrefix(string(piece), "{") || perdure.DecodeKnownJSON(piece, &next) != nil {
		v.newEntry(piece)
		return
	}
	for i, entry := range slices.Backward(v.entries) {
		if !entry.hasLabel("type", next.Type) || !entry.hasLabel("id", next.ID) {
			continue
		}
		index := ""
		if entry.fields["index"] != nil {
			index = string(entry.fields["index"].other)
		}
		same := index == string(next.Index) && (index != "" || i == len(v.entries)-1 && !entry.isSigned())
		if same {
			entry.add(piece)
			return
		}
	}
	v.newEntry(piece)
}

func (v *openValue) newEntry(piece json.RawMessage) {
	if len(v.entries) == maxEntries {
		v.tooLong = true
		return
	}
	entry := &openValue{}
	entry.add(piece)
	v.entries = append(v.entries, entry)
}

// hasLabel reports whether an entry can have a label: it has the same one, or one of both has none.
func (v *openValue) hasLabel(name, want string) bool {
	have := v.fields[name]
	return v.kind == '{' && (want == "" || have == nil || have.text.Len() == 0 || have.text.String() == want)
}

// isSigned reports whether an entry is complete: it has a signature, or encrypted data.
func (v *openValue) isSigned() bool {
	return !v.fields["signature"].isEmpty() || !v.fields["data"].isEmpty()
}

// isEmpty reports whether nothing was added; a value that does not exist is empty.
func (v *openValue) isEmpty() bool {
	return v == nil || v.text.Len() == 0 && len(v.fields) == 0 && len(v.entries) == 0 && v.other == nil
}

// value returns the JSON of the value after its last piece. Not ok: it is empty, or too long.
func (v *openValue) value() (json.RawMessage, bool) {
	if v.tooLong {
		return nil, false
	}
	switch v.kind {
	case '"':
		return encoded(v.text.String()+v.chars.rest(), v.text.Len() > 0)
	case '{':
		all := map[string]json.RawMessage{}
		for name, field := range v.fields {
			if field.tooLong {
				return nil, false
			}
			all[name] = field.orNull()
		}
		return encoded(all, len(all) > 0)
	case '[':
		var all []json.RawMessage
		for _, entry := range v.entries {
			all = append(all, entry.orNull())
		}
		return encoded(all, len(all) > 0)
	}
	return v.other, v.other != nil
}

// orNull returns the JSON of the value inside another one, where an empty text or list stays.
func (v *openValue) orNull() json.RawMessage {
	text, ok := v.value()
	switch {
	case ok:
		return text
	case v.kind == '"':
		return json.RawMessage(`""`)
	case v.kind == '{':
		return json.RawMessage(`{}`)
	case v.kind == '[':
		return json.RawMessage(`[]`)
	}
	return json.RawMessage("null")
}

func encoded(v any, ok bool) (json.RawMessage, bool) {
	text, err := json.Marshal(v)
	return text, ok && err == nil
}
