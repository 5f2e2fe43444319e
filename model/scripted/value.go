package scripted

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value returns a node as a JSON value: map[string]any, []any, string, bool, json.Number or nil.
// Dates are strings. Numbers keep their digits if they are valid in JSON.
func (p scriptNode) value() (any, error) {
	switch p.node.Kind {
	case yaml.MappingNode:
		keys, values, err := p.pairs("a value")
		if err != nil {
			return nil, err
		}
		m := make(map[string]any, len(keys))
		for i, key := range keys {
			if m[key], err = values[i].value(); err != nil {
				return nil, err
			}
		}
		return m, nil
	case yaml.SequenceNode:
		items, err := p.items("a value")
		if err != nil {
			return nil, err
		}
		list := make([]any, len(items))
		for i, item := range items {
			if list[i], err = item.value(); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return p.scalar()
}

func (p scriptNode) scalar() (any, error) {
	v := p.node.Value
	if p.node.Kind == yaml.ScalarNode {
		switch p.node.ShortTag() {
		case "!!str", "!!timestamp":
			return v, nil
		case "!!null":
			return nil, nil
		case "!!bool":
			if b, err := strconv.ParseBool(v); err == nil {
				return b, nil
			}
		case "!!int", "!!float":
			if n, ok := number(v); ok {
				return n, nil
			}
		}
	}
	return nil, p.wrong("a value that JSON can hold")
}

// number returns a YAML number in JSON form. Infinity and NaN have none.
func number(v string) (json.Number, bool) {
	if v != "" && (v[0] == '-' || '0' <= v[0] && v[0] <= '9') && v == strings.TrimSpace(v) && json.Valid([]byte(v)) {
		return json.Number(v), true
	}
	plain := strings.ReplaceAll(v, "_", "")
	if n, err := strconv.ParseInt(plain, 0, 64); err == nil {
		return json.Number(strconv.FormatInt(n, 10)), true
	}
	if n, err := strconv.ParseUint(plain, 0, 64); err == nil {
		return json.Number(strconv.FormatUint(n, 10)), true
	}
	f, err := strconv.ParseFloat(plain, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "", false
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64)), true
}

// decode returns the value of a JSON text.
func decode(text []byte) (any, error) {
	n, err := readJSON(text)
	if err != nil {
		return nil, err
	}
	return scriptNode{node: n}.value()
}

// encode writes a value as JSON, with sorted keys and without HTML escapes.
func encode(v any) (string, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// comparableNumbers returns v with numbers that templates can compare: int64, or else float64.
func comparableNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = comparableNumbers(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = comparableNumbers(inner)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	}
	return v
}
