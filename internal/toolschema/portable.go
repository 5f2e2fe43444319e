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
	o := &rewrite{writer: w, in: in, out: map[string]any{}, at: at, level: level}
	for _, keyword := range slices.Sorted(maps.Keys(in)) {
		value, k := in[keyword], kindOf(keyword)
		if k == kindTypes {
			value = w.typeName(value, at)
		}
		if !fits(k, value) {
			w.notes.add(join(at, keyword), "left out: its value has no usable form")
			continue
		}
		o.keyword(keyword, value)
	}
	o.arrays()
	o.typed()
	return o.out
}

// rewrite is a schema that is being rewritten.
type rewrite struct {
	*writer
	in    map[string]any
	out   map[string]any
	at    string
	level int
}

// child rewrites a schema below this one.
func (o *rewrite) child(value any, path ...string) map[string]any {
	return o.schema(value, join(o.at, path...), o.level+1)
}

// list rewrites a list of schemas.
func (o *rewrite) list(list []any, keyword string) (written []any) {
	for i, one := range list {
		written = append(written, o.child(one, keyword, strconv.Itoa(i)))
	}
	return written
}

// note notes what happened to a keyword.
func (o *rewrite) note(keyword, what string) { o.notes.add(join(o.at, keyword), what) }

// keyword rewrites one keyword whose value has its form.
func (o *rewrite) keyword(keyword string, value any) {
	switch kindOf(keyword) {
	case kindLocation, kindDynamic, kindDependencies:
		o.note(keyword, "left out")
	case kindBound:
		o.bound(keyword, value)
	case kindWords:
		o.out[keyword], _ = wordsOf(value)
		if !reflect.DeepEqual(o.out[keyword], value) {
			o.note(keyword, "each name once")
		}
	case kindSchema:
		if _, isFlag := value.(bool); isFlag {
			o.out[keyword] = value
			return
		}
		o.out[keyword] = o.child(value, keyword)
	case kindSchemas:
		list, _ := value.([]any)
		o.out[keyword] = o.list(list, keyword)
	case kindNamed:
		o.named(keyword, value)
	case kindItems: // see arrays
	default:
		o.out[keyword] = value
	}
}

// bound rewrites exclusiveMinimum or exclusiveMaximum of draft 4.
func (o *rewrite) bound(keyword string, value any) {
	exclusive, isFlag := value.(bool)
	if !isFlag {
		o.out[keyword] = value
		return
	}
	o.note(keyword, "written as a number")
	limit := o.in[strings.ToLower(strings.TrimPrefix(keyword, "exclusive"))]
	if exclusive && fits(kindNumber, limit) {
		o.out[keyword] = limit
	}
}

// named rewrites an object of schemas. What stands under $defs is written where references lead to
// it. A property that is never allowed is not described.
func (o *rewrite) named(keyword string, value any) {
	if keyword == "$defs" || keyword == "definitions" {
		o.note(keyword, "written where it is used")
		return
	}
	entries, _ := value.(map[string]any)
	written := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		entry := entries[name]
		if _, isList := entry.([]any); isList || entry == false { // a list is a misplaced keyword
			o.notes.add(join(o.at, keyword, name), "left out: not a schema that allows anything")
			continue
		}
		if !isSchema(entry) { // null or a text: the name still tells the model of the property
			o.notes.add(join(o.at, keyword, name), "not a schema: described as any value")
			entry = true
		}
		written[name] = o.child(entry, keyword, name)
	}
	o.out[keyword] = written
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
func (o *rewrite) arrays() {
	list, isList := o.in["items"].([]any)
	each, isOne := o.in["items"]
	switch {
	case isList:
		o.note("items", "one schema for all items")
		o.out["items"] = anyOf(o.list(list, "items"))
	case o.out["prefixItems"] != nil:
		o.note("prefixItems", "one schema for all items")
		written, _ := o.out["prefixItems"].([]any)
		if rest, ok := each.(map[string]any); ok {
			written = append(written, o.child(rest, "items"))
		}
		delete(o.out, "prefixItems")
		o.out["items"] = anyOf(written)
	case isOne && isSchema(each) && each != false:
		o.out["items"] = o.child(each, "items")
	case mentions(o.out["type"], "array"):
		o.note("items", "added")
		o.out["items"] = map[string]any{}
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
func (o *rewrite) typed() {
	out := o.out
	if out["type"] != nil {
		o.choices()
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
		o.note("type", name+" added")
		out["type"] = name
	}
}

// choices moves the type beside an anyOf into its choices, because not every provider accepts both.
func (o *rewrite) choices() {
	list, ok := o.out["anyOf"].([]any)
	if !ok || o.at == "" {
		return
	}
	for _, one := range list {
		choice, _ := one.(map[string]any)
		if choice["type"] != nil && !reflect.DeepEqual(choice["type"], o.out["type"]) {
			return
		}
	}
	for _, one := range list {
		if choice, ok := one.(map[string]any); ok {
			choice["type"] = o.out["type"]
		}
	}
	delete(o.out, "type")
	o.note("type", "written into each choice")
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
