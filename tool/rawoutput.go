package tool

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The keys of the in-band form. They have no meaning elsewhere: a tool may use them in its own
// JSON.
const (
	rawKey    = "_raw_output"
	scalarKey = "_raw_output_scalar"
)

// PackRaw encodes a value and its raw output as one JSON object, the form of older tools.
// [UnpackRaw] is its inverse.
func PackRaw(value any, raw string) (json.RawMessage, error) {
	text, err := encode(value)
	if err != nil {
		return nil, fmt.Errorf("pack raw output: %w", err)
	}
	if fields, ok := fieldsOf(text); ok {
		fields[rawKey] = raw
		return encode(fields)
	}
	return encode(map[string]any{scalarKey: text, rawKey: raw})
}

// UnpackRaw moves the raw output from the JSON of a success to the typed field, for an adapter of
// tools that use the older form. A result without a raw output string is returned unchanged.
func UnpackRaw(r Result) Result {
	if r.Kind != KindSuccess {
		return r
	}
	text, err := encode(r.Value)
	if err != nil {
		return r
	}
	fields, ok := fieldsOf(text)
	if !ok {
		return r
	}
	raw, ok := fields[rawKey].(string)
	if !ok {
		return r
	}
	delete(fields, rawKey)
	r.Value = fields
	if scalar, carried := fields[scalarKey]; carried && len(fields) == 1 {
		r.Value = scalar
	}
	return r.WithRaw(raw)
}

// fieldsOf decodes a JSON object with exact numbers.
func fieldsOf(text []byte) (map[string]any, bool) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, false
	}
	fields, ok := value.(map[string]any)
	return fields, ok
}
