package toolschema

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// kind is the form of a keyword's value.
type kind int

// The forms. The zero value is that of annotations and unknown keywords, which any value fits.
const (
	kindAnnotation   kind = iota
	kindCount             // a number of things
	kindNumber            // a limit
	kindPositive          // a number above zero
	kindFlag              // a boolean
	kindWords             // a list of strings
	kindLists             // an object of lists of strings
	kindTypes             // the name of a type, or a list of names
	kindValues            // a list of values, at least one
	kindAnything          // a value
	kindPattern           // a regular expression
	kindText              // a string for people
	kindSchema            // a schema
	kindSchemas           // a list of schemas, at least one
	kindNamed             // an object of schemas
	kindItems             // a schema, or before 2020 a list of schemas
	kindDependencies      // before 2019: an object of schemas and lists of strings
	kindReference         // a $ref
	kindDynamic           // a reference that depends on the way to it
	kindLocation          // $id, $schema and others: where a schema stands
	kindBound             // exclusiveMinimum or exclusiveMaximum: a number, in draft 4 a boolean
)

// kindOf returns the form of a keyword's value.
func kindOf(keyword string) kind {
	switch keyword {
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
		return kindCount
	case "minimum", "maximum":
		return kindNumber
	case "exclusiveMinimum", "exclusiveMaximum":
		return kindBound
	case "multipleOf":
		return kindPositive
	case "uniqueItems":
		return kindFlag
	case "required":
		return kindWords
	case "dependentRequired":
		return kindLists
	case "type":
		return kindTypes
	case "enum":
		return kindValues
	case "const":
		return kindAnything
	case "pattern":
		return kindPattern
	case "title", "description":
		return kindText
	case "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else", "additionalItems",
		"unevaluatedItems", "unevaluatedProperties":
		return kindSchema
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return kindSchemas
	case "properties", "patternProperties", "dependentSchemas", "$defs", "definitions":
		return kindNamed
	case "items":
		return kindItems
	case "dependencies":
		return kindDependencies
	case "$ref":
		return kindReference
	case "$dynamicRef", "$recursiveRef":
		return kindDynamic
	case "$id", "id", "$schema", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "$comment":
		return kindLocation
	}
	return kindAnnotation
}

// fits reports whether a value has the form of its keyword. Schemas inside it are not looked at.
func fits(k kind, value any) bool {
	switch k {
	case kindCount:
		n, ok := numberOf(value)
		return ok && n >= 0 && n <= math.MaxInt32 && n == math.Trunc(n)
	case kindNumber:
		_, ok := numberOf(value)
		return ok
	case kindPositive:
		n, ok := numberOf(value)
		return ok && n > 0
	case kindBound:
		_, isFlag := value.(bool)
		_, isNumber := numberOf(value)
		return isFlag || isNumber
	case kindFlag:
		_, ok := value.(bool)
		return ok
	case kindWords:
		_, ok := wordsOf(value)
		return ok
	case kindTypes:
		_, ok := typesOf(value)
		return ok
	case kindValues:
		list, ok := value.([]any)
		return ok && len(list) > 0
	case kindPattern, kindText, kindReference:
		_, ok := value.(string)
		return ok
	case kindSchema:
		return isSchema(value)
	case kindSchemas:
		list, ok := value.([]any)
		return ok && len(list) > 0
	case kindItems:
		_, isList := value.([]any)
		return isList || isSchema(value)
	case kindNamed, kindLists, kindDependencies:
		_, ok := value.(map[string]any)
		return ok
	}
	return true
}

// isSchema reports whether a value can be a schema.
func isSchema(value any) bool {
	switch value.(type) {
	case map[string]any, bool:
		return true
	}
	return false
}

// maxNumberBytes is the length of a number that is still of use as a limit.
const maxNumberBytes = 64

// numberOf returns a finite number.
func numberOf(value any) (float64, bool) {
	n, ok := value.(json.Number)
	if !ok || len(n) > maxNumberBytes {
		return 0, false
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	mantissa, _, _ := strings.Cut(strings.ToLower(n.String()), "e")
	if err != nil || f == 0 && strings.ContainsAny(mantissa, "123456789") { // too large, or too small
		return 0, false
	}
	return f, true
}

// comparableNumbers reports whether all numbers of a value can be compared.
func comparableNumbers(value any) bool {
	switch v := value.(type) {
	case json.Number:
		_, ok := numberOf(v)
		return ok
	case []any:
		return !slices.ContainsFunc(v, func(one any) bool { return !comparableNumbers(one) })
	case map[string]any:
		for _, one := range v {
			if !comparableNumbers(one) {
				return false
			}
		}
	}
	return true
}

// wordsOf returns a list of strings, each once.
func wordsOf(value any) (words []any, ok bool) {
	list, ok := value.([]any)
	if !ok {
		return nil, false
	}
	words = []any{} // never null in JSON
	seen := map[string]bool{}
	for _, one := range list {
		word, isText := one.(string)
		if !isText {
			return nil, false
		}
		if !seen[word] {
			seen[word] = true
			words = append(words, word)
		}
	}
	return words, true
}

// typesOf returns the names of types, each once.
func typesOf(value any) (names []any, ok bool) {
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	names, ok = wordsOf(list)
	if !ok || len(names) == 0 {
		return nil, false
	}
	for _, name := range names {
		switch name {
		case "object", "array", "string", "number", "integer", "boolean", "null":
		default:
			return nil, false
		}
	}
	return names, true
}

// target returns the schema to which a reference leads inside a document, and its path from the
// root; found is false if it leads elsewhere or nowhere.
func target(root map[string]any, ref string) (path string, found any, ok bool) {
	base, fragment, _ := strings.Cut(ref, "#")
	own, _ := root["$id"].(string)
	if base != "" && base != strings.TrimSuffix(own, "#") {
		return "", nil, false
	}
	if fragment == "" {
		return "", root, true
	}
	fragment = unescaped(fragment)
	if !strings.HasPrefix(fragment, "/") {
		return "", nil, false
	}
	var at any = root
	for token := range strings.SplitSeq(fragment[1:], "/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch v := at.(type) {
		case map[string]any:
			at = v[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return "", nil, false
			}
			at = v[i]
		default:
			return "", nil, false
		}
	}
	return fragment, at, isSchema(at)
}

// unescaped decodes the percent signs of a fragment, if they are well formed.
func unescaped(fragment string) string {
	if !strings.Contains(fragment, "%") {
		return fragment
	}
	var out strings.Builder
	for i := 0; i < len(fragment); i++ {
		if fragment[i] == '%' && i+2 < len(fragment) {
			if b, err := strconv.ParseUint(fragment[i+1:i+3], 16, 8); err == nil {
				out.WriteByte(byte(b))
				i += 2
				continue
			}
		}
		out.WriteByte(fragment[i])
	}
	return out.String()
}

// join appends tokens to a JSON pointer.
func join(at string, tokens ...string) string {
	for _, token := range tokens {
		at += "/" + strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
	}
	return at
}

// maxNotes is how many places are reported for one schema.
const maxNotes = 20

// notes are the places of a schema that were left out or rewritten, each once.
type notes struct {
	list []string
	seen map[string]bool
}

// add notes a place and what happened to it.
func (n *notes) add(at, what string) {
	line := at + ": " + what
	if n.seen[line] || len(n.list) > maxNotes {
		return
	}
	if n.seen == nil {
		n.seen = map[string]bool{}
	}
	n.seen[line] = true
	if len(n.list) == maxNotes {
		line = "and more"
	}
	n.list = append(n.list, line)
}
