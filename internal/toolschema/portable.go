package toolschema

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/perdure/perdure/internal/strictjson"
)

// The limits of one rewritten schema, because copies of what references lead to can multiply.
const (
	maxWritten      = 2000 // schemas
	maxWrittenDepth = 60
)

// Portable returns a schema of arguments in the forms that every provider accepts, and what was
// changed; the schema itself if nothing was. It describes at least the same arguments: references
// are replaced by what they lead to, a recursive one once; the root is an object with properties,
// and what its combinations (oneOf, anyOf, allOf, if) say is folded into these; keywords of older
// drafts become those of today; keywords without a usable form are left out.
func Portable(schema json.RawMessage) (told json.RawMessage, changed []string) {
	var root map[string]any
	if err := strictjson.Decode(schema, &root); err != nil || root == nil {
		return schema, nil
	}
	w := &writer{root: root, left: maxWritten}
	out := w.folded(w.object(root, "", 0))
	if out["type"] != "object" {
		out["type"] = "object"
		w.notes.add("/type", "object added")
	}
	if out["properties"] == nil {
		out["properties"] = map[string]any{}
		w.notes.add("/properties", "added")
	}
	text, err := strictjson.Encode(out)
	if len(w.notes.list) == 0 || err != nil {
		return schema, nil
	}
	return text, w.notes.list
}

// writer rewrites one schema.
type writer struct {
	root  map[string]any
	open  []string // places of the references that are being followed
	left  int      // schemas that may still be written
	notes notes
}

// schema rewrites one schema.
func (w *writer) schema(value any, at string, level int) map[string]any {
	if object, ok := value.(map[string]any); ok {
		return w.object(object, at, level)
	}
	if value != true {
		w.notes.add(at, "not a schema")
	} else {
		w.notes.add(at, "true is written as an object")
	}
	return map[string]any{}
}

// object rewrites a schema that is an object.
func (w *writer) object(in map[string]any, at string, level int) map[string]any {
	if w.left--; w.left < 0 || level > maxWrittenDepth {
		w.notes.add(at, "too deep")
		return map[string]any{}
	}
	if _, refers := in["$ref"]; refers {
		return w.reference(in, at, level)
	}
	out := map[string]any{}
	for _, keyword := range slices.Sorted(maps.Keys(in)) {
		value, k := in[keyword], kindOf(keyword)
		if k == kindTypes {
			value = w.typeName(value, at)
		}
		if !fits(k, value) {
			w.notes.add(join(at, keyword), "left out: its value has no usable form")
			continue
		}
		w.keyword(out, keyword, value, place{at: at, schema: in}, level)
	}
	w.arrays(out, in, at, level)
	w.typed(out, at)
	return out
}

// keyword rewrites one keyword whose value has its form. of is the schema in which it stands.
func (w *writer) keyword(out map[string]any, keyword string, value any, of place, level int) {
	at := join(of.at, keyword)
	switch kindOf(keyword) {
	case kindLocation, kindDynamic, kindDependencies:
		w.notes.add(at, "left out")
	case kindBound:
		w.bound(out, keyword, value, of)
	case kindWords:
		out[keyword], _ = wordsOf(value)
		if !reflect.DeepEqual(out[keyword], value) {
			w.notes.add(at, "each name once")
		}
	case kindSchema:
		if _, isFlag := value.(bool); isFlag {
			out[keyword] = value
			return
		}
		out[keyword] = w.schema(value, at, level+1)
	case kindSchemas:
		list, _ := value.([]any)
		var written []any
		for i, one := range list {
			written = append(written, w.schema(one, join(at, strconv.Itoa(i)), level+1))
		}
		out[keyword] = written
	case kindNamed:
		w.named(out, keyword, value, at, level)
	case kindItems: // see arrays
	default:
		out[keyword] = value
	}
}

// bound rewrites exclusiveMinimum or exclusiveMaximum of draft 4.
func (w *writer) bound(out map[string]any, keyword string, value any, of place) {
	exclusive, isFlag := value.(bool)
	if !isFlag {
		out[keyword] = value
		return
	}
	w.notes.add(join(of.at, keyword), "written as a number")
	in, _ := of.schema.(map[string]any)
	if limit, ok := in[strings.ToLower(strings.TrimPrefix(keyword, "exclusive"))]; ok && exclusive && fits(kindNumber, limit) {
		out[keyword] = limit
	}
}

// named rewrites an object of schemas. What stands under $defs is written where references lead to
// it. A property that is never allowed is not described.
func (w *writer) named(out map[string]any, keyword string, value any, at string, level int) {
	if keyword == "$defs" || keyword == "definitions" {
		w.notes.add(at, "written where it is used")
		return
	}
	entries, _ := value.(map[string]any)
	written := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if entries[name] == false || !isSchema(entries[name]) {
			w.notes.add(join(at, name), "left out: not a schema that allows anything")
			continue
		}
		written[name] = w.schema(entries[name], join(at, name), level+1)
	}
	out[keyword] = written
}

// reference replaces a reference by what it leads to. What stands beside it counts too.
func (w *writer) reference(in map[string]any, at string, level int) map[string]any {
	beside := maps.Clone(in)
	delete(beside, "$ref")
	ref, isText := in["$ref"].(string)
	to, found, ok := target(w.root, ref)
	copied, _ := found.(map[string]any)
	switch {
	case !ok || !isText:
		w.notes.add(join(at, "$ref"), "left out: it leads out of the schema")
		return w.object(beside, at, level)
	case slices.Contains(w.open, to):
		w.notes.add(join(at, "$ref"), "written once: it is recursive")
		if names, ok := typesOf(copied["type"]); ok && len(names) == 1 && beside["type"] == nil {
			beside["type"] = names[0]
		}
		if beside["description"] == nil {
			beside["description"] = "Of the same form as the value that contains it."
		}
		return w.object(beside, at, level)
	}
	w.notes.add(join(at, "$ref"), "replaced by what it leads to")
	merged := maps.Clone(copied)
	if merged == nil {
		merged = map[string]any{}
	}
	for keyword, value := range beside {
		merged[keyword] = bothOf(keyword, merged[keyword], value)
	}
	w.open = append(w.open, to)
	defer func() { w.open = w.open[:len(w.open)-1] }()
	return w.object(merged, at, level+1)
}

// bothOf joins the values that a keyword has in two schemas that both hold. Of most keywords the
// second counts.
func bothOf(keyword string, first, second any) any {
	switch keyword {
	case "properties", "$defs", "definitions":
		one, ok := first.(map[string]any)
		other, both := second.(map[string]any)
		if ok && both {
			joined := maps.Clone(one)
			maps.Copy(joined, other)
			return joined
		}
	case "required":
		one, ok := first.([]any)
		other, both := second.([]any)
		if ok && both {
			return slices.Concat(one, other)
		}
	}
	return second
}

// typeName corrects a name of a type that other languages have.
func (w *writer) typeName(value any, at string) any {
	name, ok := value.(string)
	if !ok {
		return value
	}
	known := map[string]string{"str": "string", "text": "string", "int": "integer", "long": "integer", "float": "number",
		"double": "number", "decimal": "number", "bool": "boolean", "dict": "object", "map": "object", "list": "array",
		"tuple": "array", "none": "null"}
	low := strings.ToLower(name)
	if other, ok := known[low]; ok {
		low = other
	}
	if low != name && fits(kindTypes, low) {
		w.notes.add(join(at, "type"), "written as "+low)
		return low
	}
	return value
}

// arrays writes items. Providers want one schema for all items of an array.
func (w *writer) arrays(out, in map[string]any, at string, level int) {
	list, isList := in["items"].([]any)
	each, isOne := in["items"]
	switch {
	case isList:
		var written []any
		for i, one := range list {
			written = append(written, w.schema(one, join(at, "items", strconv.Itoa(i)), level+1))
		}
		w.notes.add(join(at, "items"), "one schema for all items")
		out["items"] = anyOf(written)
	case out["prefixItems"] != nil:
		w.notes.add(join(at, "prefixItems"), "one schema for all items")
		written, _ := out["prefixItems"].([]any)
		if rest, ok := each.(map[string]any); ok {
			written = append(written, w.schema(rest, join(at, "items"), level+1))
		}
		delete(out, "prefixItems")
		out["items"] = anyOf(written)
	case isOne && isSchema(each) && each != false:
		out["items"] = w.schema(each, join(at, "items"), level+1)
	case mentions(out["type"], "array"):
		w.notes.add(join(at, "items"), "added")
		out["items"] = map[string]any{}
	}
}

// anyOf returns a schema for what one of several schemas describes.
func anyOf(list []any) any {
	var different []any
	for _, one := range list {
		if !slices.ContainsFunc(different, func(other any) bool { return reflect.DeepEqual(one, other) }) {
			different = append(different, one)
		}
	}
	switch len(different) {
	case 0:
		return map[string]any{}
	case 1:
		return different[0]
	}
	return map[string]any{"anyOf": different}
}

// mentions reports whether a type, or a list of types, names one.
func mentions(value any, name string) bool {
	names, _ := typesOf(value)
	return slices.Contains(names, any(name))
}

// typed adds a type where the other keywords show it.
func (w *writer) typed(out map[string]any, at string) {
	if out["type"] != nil {
		w.choices(out, at)
		return
	}
	name := ""
	switch {
	case out["anyOf"] != nil || out["oneOf"] != nil || out["allOf"] != nil || out["not"] != nil:
		return
	case out["properties"] != nil || out["additionalProperties"] != nil:
		name = "object"
	case out["items"] != nil:
		name = "array"
	case out["pattern"] != nil || out["minLength"] != nil || out["maxLength"] != nil:
		name = "string"
	case out["minimum"] != nil || out["maximum"] != nil || out["multipleOf"] != nil:
		name = "number"
	case out["const"] != nil:
		name = typeOf(out["const"])
	default:
		list, _ := out["enum"].([]any)
		for i, one := range list {
			if i > 0 && typeOf(one) != name {
				return
			}
			name = typeOf(one)
		}
	}
	if name != "" {
		w.notes.add(join(at, "type"), name+" added")
		out["type"] = name
	}
}

// choices moves the type beside an anyOf into its choices, because not every provider accepts both.
func (w *writer) choices(out map[string]any, at string) {
	list, ok := out["anyOf"].([]any)
	if !ok || at == "" {
		return
	}
	for _, one := range list {
		choice, _ := one.(map[string]any)
		if choice["type"] != nil && !reflect.DeepEqual(choice["type"], out["type"]) {
			return
		}
	}
	for _, one := range list {
		if choice, ok := one.(map[string]any); ok {
			choice["type"] = out["type"]
		}
	}
	delete(out, "type")
	w.notes.add(join(at, "type"), "written into each choice")
}

// typeOf returns the type of a value; empty: it has none of the names.
func typeOf(value any) string {
	switch value.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return ""
}
