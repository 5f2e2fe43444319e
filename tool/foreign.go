package tool

import (
	"encoding/json"

	"github.com/perdure/perdure/internal/strictjson"
	"github.com/perdure/perdure/internal/toolschema"
)

// ForeignSchema is the schema of a tool's arguments as a program outside wrote it.
type ForeignSchema struct {
	Parameters json.RawMessage // for [Spec.Parameters]: what a model reads
	Checked    json.RawMessage // for [Spec.Checked]
	Left       []string        // the places that are not checked here, and why
}

// ReadForeignSchema makes a schema from outside usable. It never fails: what cannot be checked here
// is left to the program that the tool belongs to. A text that is not a JSON object describes any
// object.
func ReadForeignSchema(text json.RawMessage) ForeignSchema {
	var root map[string]any
	if err := strictjson.Decode(text, &root); err != nil || root == nil {
		return ForeignSchema{Parameters: anyObject, Left: []string{"/: it is not a JSON object"}}
	}
	seen, all := map[string]bool{}, 0
	checked, left := toolschema.Checkable(text, toolschema.Limits{
		Enum: maxEnum,
		Pattern: func(pattern string) bool {
			_, size, err := compilePattern(pattern)
			if err != nil || seen[pattern] {
				return err == nil
			}
			if all+size > maxPatternSize {
				return false
			}
			seen[pattern] = true
			all += size
			return true
		},
		Compiles: func(schema json.RawMessage) bool {
			_, err := compile(schema, objectsOnly)
			return err == nil
		},
	})
	shown := text
	if root["type"] != "object" { // arguments are always an object
		root["type"] = "object"
		shown, _ = encode(root) // decoded from JSON, so it encodes
	}
	if len(shown) > maxSchemaBytes {
		shown = checked
	}
	found := ForeignSchema{Parameters: shown, Left: left}
	if string(checked) != string(shown) {
		found.Checked = checked
	}
	return found
}

// anyObject is the schema of a tool without one.
var anyObject = json.RawMessage(`{"type":"object"}`)
