package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// arguments are those of a call: verbatim, as JSON text that may be a template, or as a value with phrases in it.
type arguments struct {
	verbatim string
	text     *phrase // nil: value counts, unless there is a verbatim text
	value    any     // of map[string]any, []any, phrase, and what JSON writes by itself
}

func compileArguments(c Call, path string) (arguments, error) {
	if c.RawArgs != "" {
		if c.Args != nil {
			return arguments{}, faultAt(path, "give args or raw_args, not both")
		}
		return arguments{verbatim: c.RawArgs}, nil
	}
	if c.Args == nil {
		return arguments{verbatim: "{}"}, nil
	}
	path += ".args"
	if s, ok := c.Args.(string); ok {
		return compileText(s, path)
	}
	// Through JSON and back: Go values of any type become the same few kinds that a file has.
	body, err := encode(c.Args)
	if err != nil {
		return arguments{}, faultAt(path, "no JSON: %v", err)
	}
	v, err := decode([]byte(body))
	if err != nil {
		return arguments{}, faultAt(path, "%v", err)
	}
	v, err = compileValue(v, path)
	return arguments{value: v}, err
}

// compileText takes JSON text as it stands, or a template that will write some.
func compileText(s, path string) (arguments, error) {
	p, err := compilePhrase(s, path)
	if err != nil {
		return arguments{}, err
	}
	if p.form == nil && !json.Valid([]byte(s)) {
		return arguments{}, faultAt(path, "a text here is JSON, and %.40q is not: give a mapping, or raw_args for arguments that are malformed", s)
	}
	return arguments{text: &p}, nil
}

// compileValue puts phrases where texts with templates stand.
func compileValue(v any, path string) (any, error) {
	var err error
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if v[key], err = compileValue(inner, joined(path, key)); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, inner := range v {
			if v[i], err = compileValue(inner, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return nil, err
			}
		}
	case string:
		if strings.Contains(v, "{{") {
			return compilePhrase(v, path)
		}
	}
	return v, nil
}

// fill writes the arguments for a transcript.
func (a arguments) fill(t transcript) (string, error) {
	if a.verbatim != "" {
		return a.verbatim, nil
	}
	if a.text == nil {
		v, err := fillValue(a.value, t)
		if err != nil {
			return "", err
		}
		return encode(v)
	}
	s, err := a.text.fill(t)
	if err == nil && !json.Valid([]byte(s)) {
		return "", errors.New("the template in args wrote no JSON: put texts through json, as in {{json last}}")
	}
	return s, err
}

// fillValue returns a copy of v with its phrases written out.
func fillValue(v any, t transcript) (any, error) {
	var err error
	switch v := v.(type) {
	case map[string]any:
		filled := make(map[string]any, len(v))
		for key, inner := range v {
			if filled[key], err = fillValue(inner, t); err != nil {
				return nil, err
			}
		}
		return filled, nil
	case []any:
		filled := make([]any, len(v))
		for i, inner := range v {
			if filled[i], err = fillValue(inner, t); err != nil {
				return nil, err
			}
		}
		return filled, nil
	case phrase:
		return v.fill(t)
	}
	return v, nil
}
