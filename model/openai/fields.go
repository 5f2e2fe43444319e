package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// A provider may send fields that the protocol does not have, on an answer or on its calls: the
// signature of hidden thinking, its encrypted text, and so on. It expects them back unchanged with
// the next request. Their names differ between providers, so all of them are collected.

// ownFields are the fields of a delta that the protocol itself defines, or that describe the
// answer and do not belong to it.
const ownFields names = "role content refusal tool_calls function_call name audio annotations citations images " +
	"logprobs token_ids obfuscation usage index finish_reason stop_reason"

// thinkingFields are the fields whose text is the thinking of the answer.
const thinkingFields names = reasoningContent + " reasoning thinking"

// The fields of a call, and of its function, that the protocol itself defines.
const (
	callFields     names = "index id type " + functionField
	functionFields names = "name arguments"
)

// withField adds a field to fields, which may be nil.
func withField(all fields, name string, value json.RawMessage) fields {
	if all == nil {
		all = fields{}
	}
	all[name] = value
	return all
}

// addFields adds the fields of a delta. Those of the thinking are only noted, because the message
// has its text. It reports whether there were any.
func (s *stream) addFields(all fields) bool {
	some := len(all) > 0
	for _, name := range thinkingFields.list() {
		value, ok := all[name]
		if !ok || !strings.HasPrefix(string(value), `"`) {
			continue
		}
		delete(all, name)
		if !slices.Contains(s.thinkingAs, name) {
			s.thinkingAs = append(s.thinkingAs, name)
		}
	}
	s.fields.add(all)
	return some
}

// state returns what the provider wants back with the answer.
func (s *stream) state() *perdure.ProviderState {
	return &perdure.ProviderState{Family: s.family, ThinkingAs: s.thinkingAs, Fields: s.fields.values()}
}

// openFields are fields that arrive in pieces. The zero value has none.
type openFields struct{ byName map[string]*openValue }

func (f *openFields) add(pieces fields) {
	for name, piece := range pieces {
		if f.byName == nil {
			f.byName = map[string]*openValue{}
		}
		if f.byName[name] == nil {
			f.byName[name] = &openValue{}
		}
		f.byName[name].add(piece)
	}
}

// values returns the fields that are not empty; nil: there are none.
func (f *openFields) values() map[string]json.RawMessage {
	var all map[string]json.RawMessage
	for name, v := range f.byName {
		text, ok := v.value()
		if !ok {
			continue
		}
		if all == nil {
			all = map[string]json.RawMessage{}
		}
		all[name] = text
	}
	return all
}
