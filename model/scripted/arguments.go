package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// arguments are the arguments of a call: verbatim, as JSON text that may be a template, or as a
// value with phrases in it.
type arguments struct {
	verbatim string
	text     *textTemplate // nil: value is used, unless verbatim is set
	value    any           // of map[string]any, []any, phrase and scalars
}

func compileArguments(c Call, path string) (arguments, error) {
	if c.RawArgs != "" {
		if c.Args != nil {
			return arguments{}, newFault(path, "use args or raw_args, not both")
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
	// Encoding and decoding turns Go values of any type into the types that a file produces.
	body, err := encode(c.Args)
	if err != nil {
		return arguments{}, newFault(path, "not JSON: %v", err)
	}
	v, err := decode([]byte(body))
	if err != nil {
		return arguments{}, newFault(path, "%v", err)
	}
	v, err = compileValue(v, path)
	return arguments{value: v}, err
}

// compileText accepts JSON text, or a template that will produce some.
func compileText(s, path string) (arguments, error) {
	p, err := compilePhrase(s, path)
	if err != nil {
		return arguments{}, err
	}
	if p.tmpl == nil && !json.Valid([]byte(s)) {
		return arguments{}, newFault(path, "a text here must be JSON, and %.40q is not: "+
			"use a mapping, or raw_args for malformed arguments", s)
	}
	return arguments{text: &p}, nil
}

// compileValue replaces texts with templates by phrases.
func compileValue(v any, path string) (any, error) {
	var err error
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if v[key], err = compileValue(inner, joinPath(path, key)); err != nil {
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

// fill returns the arguments for a transcript.
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
		return "", errors.New("the template in args did not produce JSON: pass texts through json, as in {{json last}}")
	}
	return s, err
}

// fillValue returns a copy of v with its phrases filled in.
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
	case textTemplate:
		return v.fill(t)
	}
	return v, nil
}
