package toolschema

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// folded returns a schema of an object without combinations: their properties stand beside its own.
// A property of all parts of allOf is required if one of them requires it, a property of the
// choices of anyOf and oneOf if each requires it. The description says which sets of properties the
// choices require.
func (w *writer) folded(in map[string]any) map[string]any {
	out := maps.Clone(in)
	own, _ := in["properties"].(map[string]any)
	properties := maps.Clone(own)
	required, _ := in["required"].([]any)
	add := func(part map[string]any) {
		further, _ := part["properties"].(map[string]any)
		for name, schema := range further {
			if properties == nil {
				properties = map[string]any{}
			}
			if own[name] == nil { // a part usually narrows it
				properties[name] = eitherOf(properties[name], schema)
			}
		}
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf", "if", "then", "else", "not", "enum", "const"} {
		value, ok := out[keyword]
		if !ok {
			continue
		}
		w.notes.add(join("", keyword), "folded into the properties")
		delete(out, keyword)
		if slices.Contains([]string{"if", "not", "enum", "const"}, keyword) {
			continue
		}
		list, isList := value.([]any)
		if !isList {
			list = []any{value}
		}
		var parts []map[string]any
		for _, one := range list {
			part, _ := one.(map[string]any)
			part = w.folded(part)
			add(part)
			parts = append(parts, part)
		}
		switch {
		case keyword == "allOf":
			for _, part := range parts {
				more, _ := part["required"].([]any)
				required = slices.Concat(required, more)
			}
		case keyword == "anyOf" || keyword == "oneOf":
			required = slices.Concat(required, requiredByAll(parts))
			describe(out, keyword, parts)
		}
	}
	if properties != nil {
		out["properties"] = properties
	}
	if unique, ok := wordsOf(required); ok && len(unique) > 0 {
		out["required"] = unique
	}
	return out
}

// eitherOf joins two schemas of one property.
func eitherOf(first, second any) any {
	known, _ := first.(map[string]any)
	further, _ := second.(map[string]any)
	switch {
	case len(known) == 0 || reflect.DeepEqual(first, second):
		return second
	case len(further) == 0:
		return first
	}
	if list, ok := known["anyOf"].([]any); ok && len(known) == 1 {
		return anyOf(append(slices.Clone(list), second))
	}
	return anyOf([]any{first, second})
}

// requiredByAll returns the properties that every part requires.
func requiredByAll(parts []map[string]any) (names []any) {
	for i, part := range parts {
		own, _ := part["required"].([]any)
		if i == 0 {
			names = own
			continue
		}
		names = slices.DeleteFunc(slices.Clone(names), func(name any) bool { return !slices.Contains(own, name) })
	}
	return names
}

// describe adds to a description which properties the choices require.
func describe(out map[string]any, keyword string, parts []map[string]any) {
	var sets []string
	for _, part := range parts {
		own, _ := part["required"].([]any)
		var names []string
		for _, name := range own {
			names = append(names, fmt.Sprint(name))
		}
		if len(names) == 0 {
			return
		}
		sets = append(sets, strings.Join(names, " and "))
	}
	how := "At least one"
	if keyword == "oneOf" {
		how = "Exactly one"
	}
	text, _ := out["description"].(string)
	out["description"] = strings.TrimSpace(fmt.Sprintf("%s %s of these is required: %s.", text, how, strings.Join(sets, ", or ")))
}
