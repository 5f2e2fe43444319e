package toolschema

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/perdure/perdure/internal/strictjson"
)

// The limits of one reduction. A schema that exceeds them is checked less deeply.
const (
	maxParts      = 20_000 // schemas that are looked at
	maxReferences = 200    // places to which references lead
)

// Limits says what the checker of a schema can do.
type Limits struct {
	// Pattern reports whether a regular expression can be checked.
	Pattern func(text string) bool
	// Compiles reports whether a whole schema can be compiled.
	Compiles func(schema json.RawMessage) bool
	Enum     int // values of an enum
}

// none describes every object.
var none = json.RawMessage(`{"type":"object"}`)

// Checkable returns the part of a schema of arguments that can be checked, in the form of draft
// 2020-12, and the places that were left out. Every value that the schema accepts is accepted by
// the result: a keyword that decides by the opposite of a schema (not, if, oneOf, maxContains,
// unevaluatedProperties) is kept only where that schema is whole. References lead to copies under
// $defs. An older draft is translated.
func Checkable(schema json.RawMessage, limits Limits) (checked json.RawMessage, left []string) {
	var root map[string]any
	if err := strictjson.Decode(schema, &root); err != nil || root == nil {
		return none, []string{"/: it is not a JSON object"}
	}
	for _, depth := range []int{40, 20, 10, 5, 2, 1, 0} {
		for _, whole := range []bool{true, false} {
			r := &reducer{root: root, limits: limits, depth: depth, whole: whole, parts: maxParts,
				names: map[string]string{}, defs: map[string]any{}, legacy: isLegacy(root)}
			out := r.document()
			if r.partial && whole {
				continue // references lead to schemas that are not whole, which some keywords must know
			}
			text, err := strictjson.Encode(out)
			if err == nil && limits.Compiles(text) {
				return text, r.notes.list
			}
			break
		}
	}
	return none, []string{"/: it is too large or too deep to be checked"}
}

// isLegacy reports whether a schema names a draft in which nothing beside a $ref counts.
func isLegacy(root map[string]any) bool {
	draft, _ := root["$schema"].(string)
	return slices.ContainsFunc([]string{"draft-03", "draft-04", "draft-05", "draft-06", "draft-07"}, func(name string) bool {
		return strings.Contains(draft, name)
	})
}

// reducer makes one checkable document.
type reducer struct {
	root   map[string]any
	limits Limits
	legacy bool
	whole  bool // schemas behind references count as whole
	depth  int  // levels of schemas
	parts  int  // schemas that may still be looked at

	names   map[string]string // of the copies, by the place to which references lead
	pending []place           // schemas whose copies are still to be made
	defs    map[string]any    // the copies, by name
	partial bool              // some copy is not whole
	notes   notes
}

// place is a schema to which references lead.
type place struct {
	at     string // JSON pointer
	schema any
}

// document reduces the root and everything to which references lead.
func (r *reducer) document() map[string]any {
	out, _ := r.object(r.root, "", 0)
	out["type"] = "object"
	for len(r.pending) > 0 {
		next := r.pending[0]
		r.pending = r.pending[1:]
		copied, whole := r.schema(next.schema, next.at, 1)
		r.defs[r.names[next.at]] = copied
		r.partial = r.partial || !whole
	}
	if len(r.defs) > 0 {
		out["$defs"] = r.defs
	}
	return out
}

// schema reduces one schema. whole is false if it now accepts more than before.
func (r *reducer) schema(value any, at string, level int) (out any, whole bool) {
	switch v := value.(type) {
	case bool:
		return v, true
	case map[string]any:
		if r.parts--; level > r.depth || r.parts < 0 {
			r.notes.add(at, "too deep")
			return true, false
		}
		return r.object(v, at, level)
	}
	r.notes.add(at, "not a schema")
	return true, false
}

// part is a schema that is being reduced.
type part struct {
	*reducer
	in    map[string]any
	out   map[string]any
	at    string
	level int
	whole bool
	loose bool // contains accepts more than before
}

// object reduces a schema that is an object.
func (r *reducer) object(in map[string]any, at string, level int) (map[string]any, bool) {
	p := &part{reducer: r, in: in, out: map[string]any{}, at: at, level: level, whole: true}
	if _, isText := in["$ref"].(string); isText && r.legacy {
		p.keyword("$ref")
		return p.out, p.whole
	}
	for _, keyword := range slices.Sorted(maps.Keys(in)) {
		switch k := kindOf(keyword); {
		case k == kindAnnotation || k == kindText || k == kindLocation:
			continue
		case !fits(k, in[keyword]):
			p.drop(keyword, "its value has no usable form")
			continue
		}
		p.keyword(keyword)
	}
	if _, limited := p.out["maxContains"]; limited && p.loose {
		p.drop("maxContains", "a part of contains cannot be checked")
	}
	p.conditions()
	p.arrays()
	p.nullable()
	p.remainders()
	return p.out, p.whole
}

// drop leaves a keyword out.
func (p *part) drop(keyword, why string) {
	p.whole = false
	delete(p.out, keyword)
	p.notes.add(join(p.at, keyword), why)
}

// keyword reduces one keyword whose value has its form. Those that depend on others follow later.
func (p *part) keyword(keyword string) {
	value := p.in[keyword]
	switch kindOf(keyword) {
	case kindCount, kindNumber, kindPositive, kindFlag:
		p.out[keyword] = value
	case kindBound:
		p.bound(keyword)
	case kindWords:
		p.required(value)
	case kindTypes:
		names, _ := typesOf(value)
		p.out[keyword] = names
	case kindValues, kindAnything:
		if list, _ := value.([]any); !comparableNumbers(value) || keyword == "enum" && len(list) > p.limits.Enum {
			p.drop(keyword, "its values cannot be compared here")
			return
		}
		p.out[keyword] = value
	case kindPattern:
		if expression, _ := value.(string); !p.limits.Pattern(expression) {
			p.drop(keyword, "the pattern cannot be checked here")
			return
		}
		p.out[keyword] = value
	case kindReference:
		p.reference(value)
	case kindDynamic:
		p.drop(keyword, "dynamic references cannot be followed here")
	case kindLists, kindDependencies:
		p.dependencies(keyword)
	case kindSchemas:
		p.choices(keyword)
	case kindNamed:
		p.named(keyword)
	case kindSchema:
		p.single(keyword)
	}
}

// required reduces the list of required properties. A property with a default may be missing, since
// the server fills it in: generators that describe arguments as they are after that list it too.
func (p *part) required(value any) {
	names, _ := wordsOf(value)
	properties, _ := p.in["properties"].(map[string]any)
	needed := slices.DeleteFunc(slices.Clone(names), func(name any) bool {
		word, _ := name.(string)
		property, _ := properties[word].(map[string]any)
		_, filled := property["default"]
		return filled
	})
	p.whole = p.whole && len(needed) == len(names)
	if len(needed) > 0 || len(names) == 0 {
		p.out["required"] = needed
	}
}

// bound reduces exclusiveMinimum or exclusiveMaximum. In draft 4 it is a boolean that makes minimum
// or maximum exclusive.
func (p *part) bound(keyword string) {
	exclusive, isFlag := p.in[keyword].(bool)
	if !isFlag {
		p.out[keyword] = p.in[keyword]
		return
	}
	limit := p.in[strings.ToLower(strings.TrimPrefix(keyword, "exclusive"))]
	if _, ok := numberOf(limit); ok && exclusive {
		p.out[keyword] = limit
	}
}

// reference reduces a $ref: it leads to a copy.
func (p *part) reference(value any) {
	ref, _ := value.(string)
	at, found, ok := target(p.root, ref)
	name, known := p.names[at]
	switch {
	case !ok:
		p.drop("$ref", "it leads out of the schema, and schemas are never fetched")
		return
	case !known && len(p.names) >= maxReferences:
		p.drop("$ref", "there are too many references")
		return
	case !known:
		name = "d" + strconv.Itoa(len(p.names))
		p.names[at] = name
		p.pending = append(p.pending, place{at, found})
	}
	p.out["$ref"] = "#/$defs/" + name
	p.whole = p.whole && p.reducer.whole
}

// dependencies reduces dependentRequired, and dependencies of older drafts.
func (p *part) dependencies(keyword string) {
	entries, _ := p.in[keyword].(map[string]any)
	required, _ := p.out["dependentRequired"].(map[string]any)
	further := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		list, isList := wordsOf(entries[name])
		switch {
		case isList && required == nil:
			required = map[string]any{name: list}
		case isList:
			required[name] = list
		case keyword == "dependencies":
			further[name] = p.child(entries[name], keyword, name)
		default:
			p.whole = false
			p.notes.add(join(p.at, keyword, name), "not a list of names")
		}
	}
	if len(required) > 0 {
		p.out["dependentRequired"] = required
	}
	if _, both := p.in["dependentSchemas"]; len(further) > 0 && !both {
		p.out["dependentSchemas"] = further
	} else if len(further) > 0 {
		p.drop(keyword, "it stands beside dependentSchemas")
	}
}

// child reduces a schema below this one.
func (p *part) child(value any, path ...string) any {
	out, whole := p.schema(value, join(p.at, path...), p.level+1)
	p.whole = p.whole && whole
	return out
}

// choices reduces allOf, anyOf, oneOf or prefixItems. That exactly one of several schemas accepts a
// value can only be checked if all are whole; otherwise at least one must.
func (p *part) choices(keyword string) {
	list, _ := p.in[keyword].([]any)
	var reduced []any
	whole := true
	for i, one := range list {
		out, all := p.schema(one, join(p.at, keyword, strconv.Itoa(i)), p.level+1)
		reduced = append(reduced, out)
		whole = whole && all
	}
	p.whole = p.whole && whole
	if _, both := p.in["anyOf"]; keyword == "oneOf" && !whole && both {
		p.drop(keyword, "a part of it cannot be checked")
		return
	} else if keyword == "oneOf" && !whole {
		keyword = "anyOf"
	}
	p.out[keyword] = reduced
}

// named reduces an object of schemas. The schemas of $defs are copied where references lead to
// them.
func (p *part) named(keyword string) {
	if keyword == "$defs" || keyword == "definitions" {
		return
	}
	entries, _ := p.in[keyword].(map[string]any)
	reduced := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if keyword == "patternProperties" && !p.limits.Pattern(name) {
			p.whole = false
			p.notes.add(join(p.at, keyword, name), "the pattern cannot be checked here")
			continue
		}
		reduced[name] = p.child(entries[name], keyword, name)
	}
	p.out[keyword] = reduced
}

// single reduces a keyword that has one schema. A schema whose opposite counts must be whole.
func (p *part) single(keyword string) {
	switch keyword {
	case "if", "then", "else", "additionalItems", "unevaluatedItems", "unevaluatedProperties", "additionalProperties":
		return // these depend on others
	}
	out, whole := p.schema(p.in[keyword], join(p.at, keyword), p.level+1)
	if keyword == "not" && !whole {
		p.drop(keyword, "a part of it cannot be checked")
		return
	}
	p.out[keyword] = out
	p.whole = p.whole && whole
	p.loose = p.loose || keyword == "contains" && !whole
}

// conditions reduces if, then and else.
func (p *part) conditions() {
	condition, ok := p.in["if"]
	if !ok || !isSchema(condition) {
		return
	}
	reduced, whole := p.schema(condition, join(p.at, "if"), p.level+1)
	if !whole {
		p.drop("if", "a part of it cannot be checked")
		return
	}
	p.out["if"] = reduced
	for _, keyword := range []string{"then", "else"} {
		if branch, ok := p.in[keyword]; ok && isSchema(branch) {
			p.out[keyword] = p.child(branch, keyword)
		}
	}
}

// arrays reduces items. Before 2020 a list of items was what prefixItems is now, and
// additionalItems what items is now.
func (p *part) arrays() {
	key, first := "items", "prefixItems"
	if list, isList := p.in["items"].([]any); isList {
		var reduced []any
		for i, one := range list {
			reduced = append(reduced, p.child(one, "items", strconv.Itoa(i)))
		}
		key = "additionalItems"
		if p.out[first] == nil && len(reduced) > 0 {
			p.out[first] = reduced
		}
	}
	rest, ok := p.in[key]
	_, prefixed := p.in[first]
	switch {
	case !ok || !isSchema(rest):
	case prefixed && p.out[first] == nil:
		p.drop("items", "it depends on prefixItems")
	default:
		p.out["items"] = p.child(rest, key)
	}
}

// nullable lets null through where an OpenAPI schema says so.
func (p *part) nullable() {
	if p.in["nullable"] != true {
		return
	}
	if names, ok := p.out["type"].([]any); ok && !slices.Contains(names, any("null")) {
		p.out["type"] = append(slices.Clone(names), "null")
	}
	if list, ok := p.out["enum"].([]any); ok && !slices.ContainsFunc(list, func(v any) bool { return v == nil }) {
		p.out["enum"] = append(slices.Clone(list), nil)
	}
}

// remainders reduces the keywords for properties and items that no other keyword names. They are
// left out if the others are not known.
func (p *part) remainders() {
	if rest, ok := p.in["additionalProperties"]; ok && isSchema(rest) {
		if p.known("properties") && p.known("patternProperties") {
			p.out["additionalProperties"] = p.child(rest, "additionalProperties")
		} else {
			p.drop("additionalProperties", "it depends on properties that cannot be checked")
		}
	}
	for _, keyword := range []string{"unevaluatedItems", "unevaluatedProperties"} {
		rest, ok := p.in[keyword]
		switch {
		case !ok || !isSchema(rest):
		case !p.whole:
			p.drop(keyword, "it depends on a part that cannot be checked")
		default:
			p.out[keyword] = p.child(rest, keyword)
		}
	}
}

// known reports whether all entries of an object of schemas were kept.
func (p *part) known(keyword string) bool {
	given, ok := p.in[keyword]
	if !ok {
		return true
	}
	entries, _ := given.(map[string]any)
	kept, isKept := p.out[keyword].(map[string]any)
	return isKept && len(kept) == len(entries)
}
