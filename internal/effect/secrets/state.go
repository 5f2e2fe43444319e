package secrets

import (
	"encoding/json"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/secretargs"
)

// withoutThinking returns the state of an answer whose thinking is dropped.
func withoutThinking(state *perdure.ProviderState) *perdure.ProviderState {
	if state == nil || len(state.ThinkingAs) == 0 {
		return state
	}
	clean := *state
	clean.ThinkingAs = nil
	return &clean
}

// withoutSecrets returns the state of an answer without the fields that contain a secret.
func withoutSecrets(state *perdure.ProviderState, v *secretargs.Masker) *perdure.ProviderState {
	if state == nil {
		return nil
	}
	fields := fieldsWithoutSecrets(state.Fields, v)
	if len(fields) == len(state.Fields) {
		return state
	}
	clean := *state
	clean.Fields = fields
	return &clean
}

// fieldsWithoutSecrets returns the fields that contain no secret. A field is kept or dropped as a
// whole: the provider accepts it only unchanged.
func fieldsWithoutSecrets(fields map[string]json.RawMessage, v *secretargs.Masker) map[string]json.RawMessage {
	clean := make(map[string]json.RawMessage, len(fields))
	for name, value := range fields {
		if !hasSecret(v, value) {
			clean[name] = value
		}
	}
	if len(clean) == len(fields) {
		return fields
	}
	if len(clean) == 0 {
		return nil
	}
	return clean
}

// hasSecret reports whether a JSON value contains a secret, in its text or in a string of it. The
// strings are examined decoded, because an escape can hide a secret.
func hasSecret(v *secretargs.Masker, value json.RawMessage) bool {
	if masked := v.Mask(string(value)); masked != string(value) {
		return true
	}
	var decoded any
	if perdure.DecodeKnownJSON(value, &decoded) != nil {
		return true // what cannot be read cannot be cleared
	}
	return hasSecretText(v, decoded)
}

func hasSecretText(v *secretargs.Masker, value any) bool {
	switch value := value.(type) {
	case string:
		return v.Mask(value) != value
	case []any:
		for _, item := range value {
			if hasSecretText(v, item) {
				return true
			}
		}
	case map[string]any:
		for name, item := range value {
			if hasSecretText(v, name) || hasSecretText(v, item) {
				return true
			}
		}
	}
	return false
}
