package toolschema

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/perdure/perdure/internal/strictjson"
)

// maxPlainDepth is the depth to which a plain schema describes values.
const maxPlainDepth = 6

// Plain returns a schema of arguments with no other keywords than type, description, properties,
// required, items and an enum of strings: for a provider that refused the portable one. Every
// schema in it has one type.
func Plain(schema json.RawMessage) json.RawMessage {
	portable, _ := Portable(schema)
	var root map[string]any
	if err := strictjson.Decode(portable, &root); err != nil {
		return Empty
	}
	out := plain(root, 0)
	out["type"] = "object"
	if out["properties"] == nil {
		out["properties"] = map[string]any{}
	}
	text, err := strictjson.Encode(out)
	if err != nil {
		return Empty
	}
	return text
}

// Empty describes an object without saying anything about it.
var Empty = json.RawMessage(`{"type":"object","properties":{}}`)

func plain(in map[string]any, level int) map[string]any {
	out := map[string]any{"type": plainType(in)}
	if text, ok := in["description"].(string); ok {
		out["description"] = text
	}
	if list, ok := in["enum"].([]any); ok && out["type"] == "string" {
		if words, ok := wordsOf(list); ok && len(words) > 0 {
			out["enum"] = words
		}
	}
	if each, ok := in["items"].(map[string]any); ok && out["type"] == "array" && level < maxPlainDepth {
		out["items"] = plain(each, level+1)
	} else if out["type"] == "array" {
		out["items"] = map[string]any{"type": "string"}
	}
	entries, ok := in["properties"].(map[string]any)
	if !ok || out["type"] != "object" || level >= maxPlainDepth {
		return out
	}
	properties := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if one, ok := entries[name].(map[string]any); ok {
			properties[name] = plain(one, level+1)
		}
	}
	out["properties"] = properties
	list, _ := wordsOf(in["required"])
	var required []any
	for _, name := range list {
		if word, _ := name.(string); properties[word] != nil {
			required = append(required, name)
		}
	}
	if required != nil {
		out["required"] = required
	}
	return out
}

// plainType returns one type of a schema: the first that is not null, also of its choices.
func plainType(in map[string]any) string {
	names, _ := typesOf(in["type"])
	for _, name := range names {
		if text, _ := name.(string); text != "null" {
			return text
		}
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		list, _ := in[keyword].([]any)
		for _, one := range list {
			if choice, ok := one.(map[string]any); ok && !mentions(choice["type"], "null") {
				return plainType(choice)
			}
		}
	}
	return "string"
}
